"""What clients made of answers that a fault had spoiled: whether they go on from them.

A client that takes half an answer for a whole one shows it by its next request, whose history
holds that half as what the model said.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from llm_proxy.conversation import Conversation
from llm_proxy.dialects.base import Dialect, Response
from llm_proxy.exchange import Head, Request
from llm_proxy.faults.fault_record import Effect, Injected
from llm_proxy.framing import by_bytes, messages
from llm_proxy.turns import Text

SPOILED: Final = frozenset(
    (Effect.CUT, Effect.TRUNCATED, Effect.FAILED, Effect.MALFORMED, Effect.ALTERED)
)
"""Effects after which an answer is not what the provider said."""
_KEPT: Final = 1000
"""Answers that are remembered, the latest."""


def is_spoiled(injected: tuple[Injected, ...]) -> bool:
    """Whether any of it has spoiled what was said."""
    return any(not it.skipped and it.effect in SPOILED for it in injected)


def said(dialect: Dialect, request: Request, head: Head, body: bytes) -> str:
    """The text of an answer, as far as it went."""
    codec = by_bytes(dialect.codec(request, head), body)
    turns = dialect.turns(Response(head, codec, messages(codec, body)))
    return turns[0].text.strip() if turns else ""


class Watch:
    """The spoiled answers of a run, by their sessions."""

    def __init__(self) -> None:
        self._spoiled: OrderedDict[tuple[str, str], int] = OrderedDict()

    def __bool__(self) -> bool:
        """Whether there is anything to watch for."""
        return bool(self._spoiled)

    def watches(self, session: str) -> bool:
        """Whether an answer of this session was spoiled."""
        return any(it == session for it, _ in self._spoiled)

    def clear(self, session: str, text: str) -> None:
        """An answer that was not spoiled said this, too: a history that holds it proves nothing."""
        self._spoiled.pop((session, text), None)

    def remember(self, session: str, text: str, number: int) -> None:
        """The answer to request `number` was spoiled, and said this."""
        if not text:
            return
        self._spoiled[session, text] = number
        while len(self._spoiled) > _KEPT:
            self._spoiled.popitem(last=False)

    def forget(self, session: str) -> None:
        """Begin this session again."""
        for it in [it for it in self._spoiled if it[0] == session]:
            del self._spoiled[it]

    def continued(self, session: str, conversation: Conversation) -> int | None:
        """The number of the request whose spoiled answer this conversation goes on from."""
        for message in reversed(conversation.messages):
            if message.role != "assistant":
                continue
            text = "".join(it.text for it in message.parts if isinstance(it, Text)).strip()
            if (number := self._spoiled.get((session, text))) is not None:
                return number
        return None
