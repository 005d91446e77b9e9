"""Generates scenarios from recorded exchanges.

from_cassettes  which exchange is which turn
from_turns      what was said as an answer of a scenario
patterns        texts as regular expressions
yaml_writing    values as YAML that people edit
"""
