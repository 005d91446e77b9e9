"""Requests in, responses out, byte for byte and on time."""
