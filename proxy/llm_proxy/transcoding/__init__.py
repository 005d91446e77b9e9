"""Converts recorded requests and responses to another dialect, and names what is lost."""
