"""The demo: a provider of its own, recorded and replayed on loopback."""
