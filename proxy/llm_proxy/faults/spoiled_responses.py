"""Remembers spoiled responses, to detect clients that continue from them.

A client that takes half an answer for a whole one shows it by its next request, whose history
holds that half as what the model said.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from llm_proxy.conversation import Conversation
from llm_proxy.dialects.base import Dialect, DialectResponse
from llm_proxy.exchange import Request, ResponseHead
from llm_proxy.faults.fault_record import FaultEffect, FaultRecord
from llm_proxy.framing import codec_of_bytes, split_messages
from llm_proxy.turns import Text

SPOILED: Final = frozenset(
    (
        FaultEffect.CUT,
        FaultEffect.TRUNCATED,
        FaultEffect.FAILED,
        FaultEffect.MALFORMED,
        FaultEffect.ALTERED,
    )
)
"""Effects after which an answer is not what the provider said."""
_KEPT: Final = 1000
"""Answers that are remembered, the latest."""


def is_spoiled_by(injected: tuple[FaultRecord, ...]) -> bool:
    """Whether any of it has spoiled what was said."""
    return any(
        not fault_record.skipped and fault_record.effect in SPOILED for fault_record in injected
    )


def response_text(dialect: Dialect, request: Request, head: ResponseHead, body: bytes) -> str:
    """The text of an answer, as far as it went."""
    codec = codec_of_bytes(dialect.codec(request, head), body)
    turns = dialect.decode(DialectResponse(head, codec, split_messages(codec, body)))
    return turns[0].text.strip() if turns else ""


class SpoiledResponses:
    """The spoiled answers of a run, by their sessions."""

    def __init__(self) -> None:
        self._spoiled_by_session: OrderedDict[tuple[str, str], int] = OrderedDict()

    def __bool__(self) -> bool:
        """Whether there is anything to watch for."""
        return bool(self._spoiled_by_session)

    def has_spoiled(self, session: str) -> bool:
        """Whether an answer of this session was spoiled."""
        return any(text == session for text, _ in self._spoiled_by_session)

    def clear_by_text(self, session: str, text: str) -> None:
        """An answer that was not spoiled said this, too: a history that holds it proves nothing."""
        self._spoiled_by_session.pop((session, text), None)

    def remember_spoiled(self, session: str, text: str, number: int) -> None:
        """The answer to request `number` was spoiled, and said this."""
        if not text:
            return
        self._spoiled_by_session[session, text] = number
        while len(self._spoiled_by_session) > _KEPT:
            self._spoiled_by_session.popitem(last=False)

    def forget_session(self, session: str) -> None:
        """Begin this session again."""
        for values in [values for values in self._spoiled_by_session if values[0] == session]:
            del self._spoiled_by_session[values]

    def continued_request(self, session: str, conversation: Conversation) -> int | None:
        """The number of the request whose spoiled answer this conversation goes on from."""
        for message in reversed(conversation.messages):
            if message.role != "assistant":
                continue
            text = "".join(part.text for part in message.parts if isinstance(part, Text)).strip()
            if (number := self._spoiled_by_session.get((session, text))) is not None:
                return number
        return None
