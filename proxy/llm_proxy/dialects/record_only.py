"""The base of dialects that are recorded and replayed but never encoded."""

from __future__ import annotations

from llm_proxy.dialects.base import Dialect


class RecordOnlyDialect(Dialect):
    """A dialect that is matched and checked for completeness, but never encoded."""

    def keep_alive_message(self, codec: str) -> bytes:
        """Empty: none is known."""
        return b""
