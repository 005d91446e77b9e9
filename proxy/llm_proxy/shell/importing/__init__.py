"""Recordings of other tools, read from files and put into a library, or a folder of scenarios."""
