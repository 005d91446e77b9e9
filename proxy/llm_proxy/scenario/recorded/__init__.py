"""Generates scenarios from recorded exchanges.

from_cassettes  a scenario from the exchanges of a conversation
from_turns      decoded turns as scenario responses
yaml_writing    YAML that people edit
"""
