"""A request for a turn, and what tells an answer to it."""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.dialects.base import Dialect
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.exchange import Request


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked, in which dialect, and how its answer is told."""

    dialect: Dialect
    request: Request
    delivery: Delivery
