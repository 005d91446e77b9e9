"""What can go wrong on the way to a client, and where, when, for whom; see `docs/faults.md`."""
