"""The scenario engine: from a request to a scripted response.

matcher             what scenarios see of a request; a compiled `match`
choosing            which scenario answers, and why
scripting           checks, failures and the response, in order
unsigned_reasoning  removes reasoning without a signature from the history
turns               scenario responses as turns
mock                a model that answers every request
response_store      responses that a later request may continue
"""
