"""Compares requests, responses, recorded exchanges and texts."""
