"""Synthesizes responses for requests without a scenario; see `docs/synthesis.md`.

lorem         the words, and how many of them a message gets
instruction   what a message may ask for in a block of JSON
telling       how a dialect tells the several messages of an instruction
answer        a conversation's answer: which words, and why
"""
