"""Scenario files on disk: found, read, and reloaded when they change."""
