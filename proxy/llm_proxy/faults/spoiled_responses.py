"""Remembers spoiled responses, to detect clients that continue from them.

A client that takes half a response for a complete one shows it in its next request, whose history
contains that half as a message of the model.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from llm_proxy.conversation import Conversation
from llm_proxy.dialects.base import Dialect, DialectResponse
from llm_proxy.exchange import Request, ResponseHead
from llm_proxy.faults.fault_record import FaultEffect, FaultRecord
from llm_proxy.framing import codec_name_for_body, split_messages
from llm_proxy.turns import Text, Turn

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


def is_spoiled_by(fault_records: Iterable[FaultRecord]) -> bool:
    """Whether any fault that was injected has spoiled the contents of the response."""
    return any(
        not fault_record.skipped and fault_record.effect in SPOILING_EFFECTS
        for fault_record in fault_records
    )


def decode_sent_response(
    dialect: Dialect, request: Request, head: ResponseHead, body: bytes
) -> tuple[Turn, ...]:
    """The turns of a response that may be incomplete."""
    codec = codec_name_for_body(dialect.codec_name(request, head), body)
    return dialect.decode_response(DialectResponse(head, codec, split_messages(codec, body)))


class SpoiledResponses:
    """The spoiled responses of a run, by session and text."""

    def __init__(self) -> None:
        self.request_numbers: dict[tuple[str, str], int] = {}
        """By session and text, the number of the request whose spoiled response has this text."""

    def has_spoiled_response(self, session: str) -> bool:
        """Whether a spoiled response of this session is remembered."""
        return any(spoiled_session == session for spoiled_session, _ in self.request_numbers)

    def add_response(
        self, session: str, turns: tuple[Turn, ...], request_number: int, *, is_spoiled: bool
    ) -> None:
        """Remembers the text of the spoiled response to request `request_number`.

        Forgets a text that an intact response contains too: a history with it proves nothing.
        """
        text = turns[0].text.strip() if turns else ""
        if not is_spoiled:
            self.request_numbers.pop((session, text), None)
        elif text:
            self.request_numbers[session, text] = request_number
            if len(self.request_numbers) > _MAX_REMEMBERED:
                del self.request_numbers[next(iter(self.request_numbers))]

    def forget_session(self, session: str) -> None:
        """Forgets the spoiled responses of this session."""
        for key in [key for key in self.request_numbers if key[0] == session]:
            del self.request_numbers[key]

    def continued_request_number(self, session: str, conversation: Conversation) -> int | None:
        """The number of the request whose spoiled response this conversation contains; or None."""
        for message in reversed(conversation.messages):
            if message.role == "assistant":
                text = "".join(part.text for part in message.parts if isinstance(part, Text))
                number = self.request_numbers.get((session, text.strip()))
                if number is not None:
                    return number
        return None
