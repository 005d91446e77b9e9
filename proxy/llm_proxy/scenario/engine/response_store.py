"""Stores responses for requests that continue or retrieve one by id."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.turns import Turn

_KEPT: Final = 10_000
"""Answers; the oldest are forgotten."""
_MOST: Final = 64 * 1024 * 1024
"""Bytes of the requests that were answered; of more, the oldest are forgotten."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """An answer that was given."""

    conversation: Conversation
    """What it answered, with all that came before."""
    turns: tuple[Turn, ...]
    delivery: EncodeContext
    body: bytes
    """Of the request, part of which an answer repeats."""
    dialect: str
    """The name of the dialect that told it."""


class ResponseStore:
    """The latest answers, by session and id."""

    def __init__(self) -> None:
        self._responses: OrderedDict[tuple[str, str], StoredResponse] = OrderedDict()
        self._stored_size = 0

    def store(self, session: str, stored_response: StoredResponse) -> None:
        """Remember an answer by its id, and by that of the conversation which it adds to."""
        for name in filter(
            None, (stored_response.turns[0].id, stored_response.conversation.stored_conversation_id)
        ):
            self._remove((session, name))
            self._responses[session, name] = stored_response
            self._stored_size += len(stored_response.body)
        while len(self._responses) > _KEPT or self._stored_size > _MOST:
            self._remove(next(iter(self._responses)))

    def find(self, session: str, answer: str) -> StoredResponse | None:
        """The answer of that id."""
        return self._responses.get((session, answer))

    def reset_session(self, session: str) -> None:
        """Forget this session's answers."""
        for key in [key for key in self._responses if key[0] == session]:
            self._remove(key)

    def _remove(self, key: tuple[str, str]) -> None:
        stored_response = self._responses.pop(key, None)
        self._stored_size -= len(stored_response.body) if stored_response else 0

    def with_previous_messages(self, session: str, conversation: Conversation) -> Conversation:
        """The conversation with what came before, where it only names the answer it continues.

        The system prompt is not continued: providers want it said anew.  What is not known is not
        there: see `lacks`.
        """
        before = self.find(
            session, conversation.previous_response_id or conversation.stored_conversation_id
        )
        if before is None:
            return conversation
        values = tuple(RequestMessage("assistant", turn.parts) for turn in before.turns[:1])
        messages = (*before.conversation.messages, *values, *conversation.messages)
        return replace(conversation, messages=messages)

    def is_missing_previous(self, session: str, conversation: Conversation) -> bool:
        """Whether it continues an answer that was not given here, or is forgotten."""
        named = conversation.previous_response_id
        return bool(named) and self.find(session, named) is None
