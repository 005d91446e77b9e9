"""The demo: its own provider, recorded and replayed on loopback."""
