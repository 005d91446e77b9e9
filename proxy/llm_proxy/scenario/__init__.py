"""Scripted conversations; see `docs/reference/scenarios.md`.

documents          scenario files: schema, parsing with source positions, validation
scripted_response  the scripted response as timed actions; simulated failures
choosing           chooses the scenario for a request
scripting          checks the request, and scripts the response of a scenario or a mock
generation         generated content: JSON Schema values, templates
recorded           recorded exchanges as a scenario, in YAML for editing
"""
