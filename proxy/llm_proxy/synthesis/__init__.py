"""Answers that are made up, for requests that nothing is written for; see `docs/synthesis.md`.

lorem         the words, and how many of them a message gets
instruction   what a message may ask for in a block of JSON
telling       how a dialect tells the several messages of an instruction
answer        a conversation's answer: which words, and why
"""
