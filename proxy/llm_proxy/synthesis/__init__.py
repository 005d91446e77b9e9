"""Synthesizes responses for requests without a scenario; see `docs/synthesis.md`.

lorem           placeholder words, and their number for a message
instruction     the JSON instruction that a message may contain
message_layout  how a dialect represents several messages of an instruction
response        the synthesized response to a conversation
"""
