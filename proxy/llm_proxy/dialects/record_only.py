"""The base of dialects that are recorded and replayed but never encoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never

from llm_proxy.conversation import Conversation
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.conversion import ConvertedTurns
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.turns import TokenCounting, Turn


class RecordOnlyDialect:
    """A dialect that is recognised and judged, and never spoken."""

    name: str
    token_counting = TokenCounting()
    overloaded_status = 503

    def decode_request(self, request: Request) -> Conversation | None:
        """None: no turn is asked for."""
        return None

    def output_chars(self, codec: str, message: bytes) -> int:
        """Nothing."""
        return 0

    def keep_alive_message(self, codec: str) -> bytes:
        """None is known."""
        return b""

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """None is.  Raises `NotRepresentable`."""
        self._not_representable()

    def convert(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> ConvertedTurns:
        """None does.  Raises `NotRepresentable`."""
        self._not_representable()

    def encode(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Nothing.  Raises `NotRepresentable`."""
        self._not_representable()

    def _not_representable(self) -> Never:
        raise NotRepresentable(f"answers of {self.name} hold no turns, so none can be told as one")
