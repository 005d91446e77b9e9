"""Parses fault rules: `reset,after=3,nth=2,model=gpt-4*`.

terms      splits a text or a mapping into terms
locations  after, at, bytes, ms, fraction
triggers   nth, first, every, probability, window, times, per
selectors  dialect, provider, model, path, session, stream
rules      complete rules
"""

from llm_proxy.faults.grammar.rules import parse_rule, parse_rules

__all__ = ["parse_rule", "parse_rules"]
