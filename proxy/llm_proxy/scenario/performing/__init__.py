"""From directions to actions.

asked     a request, and what tells an answer to it
outgoing  what goes out, and when
cutting   how texts become the pieces of a stream
spans     the time between them
failures  failures as a client meets them
"""
