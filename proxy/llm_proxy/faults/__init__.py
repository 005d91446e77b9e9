"""Faults: what goes wrong, where in the stream, and for which requests.

Reference: `docs/reference/faults.md`.
"""
