"""Runs a server: settings, environment, signals, logs."""
