"""A request for a turn, with its dialect and encode context."""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.dialects.base import Dialect
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.exchange import Request


@dataclass(frozen=True, slots=True)
class DecodedRequest:
    """What was asked, in which dialect, and how its answer is told."""

    dialect: Dialect
    request: Request
    context: EncodeContext
