"""Renders scripted responses as actions.

outgoing  what goes out, and when
cutting   how texts become the pieces of a stream
spans     the time between them
failures  failures as a client meets them
"""
