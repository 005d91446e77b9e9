"""Actions on their way through the rules that strike an answer.

body      the bytes of a body that are held or let go, and where its messages end
meaning   whether a fault has a meaning in an answer, as its head tells
seeking   where in the stream a place is, as far as it can be told yet
rewriter  one rule: what goes out before its place, at it, and behind it
chain     several rules, one after the other
types     what types of event a message has
"""

from llm_proxy.faults.rewriting.chain import RewriterChain, RewritingTooExpensive, rewrite_response
from llm_proxy.faults.rewriting.rewriter import RuleRewriter

__all__ = ["RewriterChain", "RewritingTooExpensive", "RuleRewriter", "rewrite_response"]
"""What the rest of the package works with."""
