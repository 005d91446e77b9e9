"""Scripted conversations: documents read, chosen, checked, and directed; see `docs/scenarios.md`.

document     what a scenario document may say
directions   what a request is answered with, before any dialect speaks
"""
