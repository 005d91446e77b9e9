"""A server from start to stop: settings, environment, signals, logs."""
