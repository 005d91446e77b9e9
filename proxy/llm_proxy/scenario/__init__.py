"""Scripted conversations; see `docs/scenarios.md`.

documents   files: read with the place of everything in them, checked, and what they may say
playing     which scenario a request is answered by, whether it is as expected, and what is said
directions  what a request is answered with, before any dialect speaks
performing  directions as actions: what goes out, and when; failures as a client meets them
making      what is made to fit a request: values of a JSON Schema, templates, ReAct
recorded    recorded exchanges as a scenario
"""
