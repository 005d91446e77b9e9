"""The library: a folder of cassettes and the takes in it."""
