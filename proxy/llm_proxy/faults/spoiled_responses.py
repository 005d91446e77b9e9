"""Remembers spoiled responses, to detect clients that continue from them.

A client that takes half a response for a complete one shows it in its next request, whose history
contains that half as a message of the model.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from llm_proxy.conversation import Conversation
from llm_proxy.dialects.base import Dialect, DialectResponse
from llm_proxy.exchange import Request, ResponseHead
from llm_proxy.faults.fault_record import FaultEffect, FaultRecord
from llm_proxy.framing import codec_name_for_body, split_messages
from llm_proxy.turns import Text

SPOILING_EFFECTS: Final = frozenset(
    (
        FaultEffect.CUT,
        FaultEffect.TRUNCATED,
        FaultEffect.FAILED,
        FaultEffect.MALFORMED,
        FaultEffect.ALTERED,
    )
)
"""The effects that leave the client with other contents than the provider sent."""
_MAX_REMEMBERED: Final = 1000
"""How many responses are remembered: the latest."""


def is_spoiled_by(fault_records: tuple[FaultRecord, ...]) -> bool:
    """Whether any fault that was injected has spoiled the contents of the response."""
    return any(
        not fault_record.skipped and fault_record.effect in SPOILING_EFFECTS
        for fault_record in fault_records
    )


def response_text(dialect: Dialect, request: Request, head: ResponseHead, body: bytes) -> str:
    """The text of a response that may be incomplete, without surrounding white space."""
    codec = codec_name_for_body(dialect.codec_name(request, head), body)
    turns = dialect.decode_response(DialectResponse(head, codec, split_messages(codec, body)))
    return turns[0].text.strip() if turns else ""


class SpoiledResponses:
    """The spoiled responses of a run, by session and text."""

    def __init__(self) -> None:
        self._request_numbers: OrderedDict[tuple[str, str], int] = OrderedDict()

    def __bool__(self) -> bool:
        """Whether any spoiled response is remembered."""
        return bool(self._request_numbers)

    def has_spoiled_response(self, session: str) -> bool:
        """Whether a spoiled response of this session is remembered."""
        return any(spoiled_session == session for spoiled_session, _ in self._request_numbers)

    def forget_text(self, session: str, text: str) -> None:
        """Forgets a text that an intact response contains too: a history with it proves nothing."""
        self._request_numbers.pop((session, text), None)

    def remember_spoiled(self, session: str, text: str, request_number: int) -> None:
        """Remembers the text of the spoiled response to request `request_number`."""
        if not text:
            return
        self._request_numbers[session, text] = request_number
        while len(self._request_numbers) > _MAX_REMEMBERED:
            self._request_numbers.popitem(last=False)

    def forget_session(self, session: str) -> None:
        """Forgets the spoiled responses of this session."""
        for key in [key for key in self._request_numbers if key[0] == session]:
            del self._request_numbers[key]

    def continued_request_number(self, session: str, conversation: Conversation) -> int | None:
        """The number of the request whose spoiled response this conversation contains; or None."""
        for message in reversed(conversation.messages):
            if message.role != "assistant":
                continue
            text = "".join(part.text for part in message.parts if isinstance(part, Text)).strip()
            if (request_number := self._request_numbers.get((session, text))) is not None:
                return request_number
        return None
