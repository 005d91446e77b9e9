"""Scripted conversations; see `docs/scenarios.md`.

documents          scenario files: schema, parsing with source positions, validation
engine             chooses the scenario for a request, checks the request, scripts the response
scripted_response  the scripted response, before a dialect encodes it; pieces and their gaps
render             scripted responses as timed actions; simulated failures
generation         generated content: JSON Schema values, templates, ReAct text
recorded           recorded exchanges as a scenario
"""
