"""The base of dialects that are recorded and replayed but never encoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never

from llm_proxy.conversation import Conversation
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.conversion import ConvertedResponseTurns
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.turns import TokenCounting, Turn


class RecordOnlyDialect:
    """A dialect that is matched and checked for completeness, but never encoded."""

    name: str
    token_counting = TokenCounting()
    overloaded_status = 503

    def decode_request(self, request: Request) -> Conversation | None:
        """None: the request asks for no turn."""
        return None

    def output_chars(self, codec: str, message: bytes) -> int:
        """Zero."""
        return 0

    def keep_alive_message(self, codec: str) -> bytes:
        """Empty: none is known."""
        return b""

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """Raises `NotRepresentable`."""
        self._raise_not_representable()

    def representable_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> ConvertedResponseTurns:
        """Raises `NotRepresentable`."""
        self._raise_not_representable()

    def encode_response(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Raises `NotRepresentable`."""
        self._raise_not_representable()

    def _raise_not_representable(self) -> Never:
        raise NotRepresentable(f"answers of {self.name} hold no turns, so none can be told as one")
