"""Rules as people spell them: `reset,after=3,nth=2,model=gpt-4*`.

terms     a text cut into terms, or a mapping as terms
places    after, at, bytes, ms, fraction
occasions nth, first, every, probability, window, times, per
audiences dialect, provider, model, path, session, stream
rules     all of it together
"""

from llm_proxy.faults.grammar.rules import rule_of, rules_of

__all__ = ["rule_of", "rules_of"]
