"""Cohere: versions 2 and 1 of its API."""
