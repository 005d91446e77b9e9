"""Faults: what goes wrong, where in the stream, when and for which requests (`docs/faults.md`)."""
