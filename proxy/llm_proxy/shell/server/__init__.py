"""The HTTP server: requests in, responses out, byte for byte and on time."""
