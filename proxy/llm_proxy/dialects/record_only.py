"""What dialects have in common whose answers hold no turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never

from llm_proxy.conversation import Conversation
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.conversion import Fitted
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.errors import CannotSay
from llm_proxy.exchange import Request
from llm_proxy.turns import Counting, Turn


class Unspoken:
    """A dialect that is recognised and judged, and never spoken."""

    name: str
    counting = Counting()
    overloaded = 503

    def conversation(self, request: Request) -> Conversation | None:
        """None: no turn is asked for."""
        return None

    def says(self, codec: str, message: bytes) -> int:
        """Nothing."""
        return 0

    def keep_alive(self, codec: str) -> bytes:
        """None is known."""
        return b""

    def typical(self, model: str, *, stream: bool) -> Request:
        """None is.  Raises `CannotSay`."""
        self._refuse()

    def fit(self, request: Request, turns: Sequence[Turn], delivery: Delivery) -> Fitted:
        """None does.  Raises `CannotSay`."""
        self._refuse()

    def speak(self, request: Request, turns: Sequence[Turn], delivery: Delivery) -> Response:
        """Nothing.  Raises `CannotSay`."""
        self._refuse()

    def _refuse(self) -> Never:
        raise CannotSay(f"answers of {self.name} hold no turns, so none can be told as one")
