"""The scenario engine: from a request to a scripted response.

cue        what a scripted answer is given on
script     all scenarios of a run
choosing   which of them answers
matcher    what a `match` asks of a request
trying     why each does or does not
directing  the order of things: checks, failures, the answer
history    reasoning without its seal, stripped from what came before
checks     what a scenario expects of a request
counting   how often a step has failed
given      the answers that a later request may continue
answers    answers of documents as turns
metadata   what is said to one provider alone
reports    final reports that say what went wrong
mock       a model that answers whatever is asked
"""
