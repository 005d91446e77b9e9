"""The scenario engine: from a request to a scripted response.

matcher   what scenarios see of a request; a compiled `match`
choosing  which scenario answers, and why
scripting checks, failures and the response, in order
turns     scenario responses as turns
mock      a model that answers every request
"""
