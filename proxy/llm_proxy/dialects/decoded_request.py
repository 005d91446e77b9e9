"""A request with its dialect and encode context."""

from __future__ import annotations

from dataclasses import dataclass

from llm_proxy.dialects.base import Dialect
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.exchange import Request


@dataclass(frozen=True, slots=True)
class DecodedRequest:
    """A request (not decoded yet), its dialect, and the context to encode its response with."""

    dialect: Dialect
    request: Request
    context: EncodeContext
