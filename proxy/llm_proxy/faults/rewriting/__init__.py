"""Rewrites the actions of a response by the rules that apply to it.

buffered_body  the bytes of a body that are held or released, and where its messages end
applicability  whether a fault is applicable to a response, by its head
locator        finds a location in a body while it arrives
rewriter       one rule: the actions before its location, at it, and after it
chain          several rules, one after the other
event_types    the event types of a message
"""

from llm_proxy.faults.rewriting.chain import RewriterChain, RewritingTooExpensive, rewrite_response
from llm_proxy.faults.rewriting.rewriter import RuleRewriter

__all__ = ["RewriterChain", "RewritingTooExpensive", "RuleRewriter", "rewrite_response"]
