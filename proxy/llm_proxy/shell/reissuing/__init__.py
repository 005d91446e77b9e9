"""Sends stored requests to the live provider again, recorded as by `record`."""
