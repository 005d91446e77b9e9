"""Scenario files on disk: found, read, and read again when they change; see `shell`."""
