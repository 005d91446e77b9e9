"""Parses fault rules: `reset,after=3,nth=2,model=gpt-4*`.

terms     a text cut into terms, or a mapping as terms
places    after, at, bytes, ms, fraction
occasions nth, first, every, probability, window, times, per
audiences dialect, provider, model, path, session, stream
rules     all of it together
"""

from llm_proxy.faults.grammar.rules import parse_rule, parse_rules

__all__ = ["parse_rule", "parse_rules"]
