"""Renders scripted responses as actions.

actions         timed actions of a response
text_splitting  splits texts into the pieces of a stream
durations       random durations and gaps between pieces
failures        simulated failures
"""
