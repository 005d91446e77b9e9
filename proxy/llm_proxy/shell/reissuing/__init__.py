"""Stored requests, asked again: of the live provider, through the recorder of `record`."""
