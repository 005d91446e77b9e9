"""Faults: what can go wrong, where in the stream, when and for whom; see `docs/faults.md`."""
