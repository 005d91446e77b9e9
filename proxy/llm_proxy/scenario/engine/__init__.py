"""The scenario engine: from a request to a scripted response.

match_context       what scenarios see of a request
scenario_set        all scenarios of a run
choosing            which scenario answers
matcher             a compiled `match`
trials              why each scenario does or does not answer
scripting           checks, failures and the response, in order
unsigned_reasoning  removes reasoning without a signature from the history
checks              what a scenario expects of a request
failure_counter     simulated failures per session and step
response_store      responses that a later request may continue
turns               scenario responses as turns
metadata            provider-specific metadata
error_reports       final reports of errors
mock                a model that answers every request
"""
