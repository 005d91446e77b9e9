"""Stores responses for requests that continue or retrieve a response by id."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.turns import Turn

_MAX_RESPONSES: Final = 10_000
"""The most stored responses; beyond that the oldest are dropped."""
_MAX_REQUEST_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of all stored request bodies; beyond that the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response that was sent, with its request."""

    conversation: Conversation
    """The request's, including all previous messages."""
    response_turns: tuple[Turn, ...]
    encode_context: EncodeContext
    request_body: bytes
    """Some of its fields are repeated when the response is retrieved."""
    dialect_name: str
    """The name of the dialect that encoded the response."""


class ResponseStore:
    """The latest responses, by session and id."""

    def __init__(self) -> None:
        self._responses: OrderedDict[tuple[str, str], StoredResponse] = OrderedDict()
        self._stored_request_bytes = 0

    def store(self, session: str, stored_response: StoredResponse) -> None:
        """Store a response under its id, and under the id of the conversation it belongs to."""
        for response_id in filter(
            None,
            (
                stored_response.response_turns[0].id,
                stored_response.conversation.stored_conversation_id,
            ),
        ):
            self._remove((session, response_id))
            self._responses[session, response_id] = stored_response
            self._stored_request_bytes += len(stored_response.request_body)
        while (
            len(self._responses) > _MAX_RESPONSES or self._stored_request_bytes > _MAX_REQUEST_BYTES
        ):
            self._remove(next(iter(self._responses)))

    def find(self, session: str, response_id: str) -> StoredResponse | None:
        """The response with this id, or the latest of the conversation with this id."""
        return self._responses.get((session, response_id))

    def reset_session(self, session: str) -> None:
        """Drop the responses of this session."""
        for key in [key for key in self._responses if key[0] == session]:
            self._remove(key)

    def _remove(self, key: tuple[str, str]) -> None:
        stored_response = self._responses.pop(key, None)
        self._stored_request_bytes -= len(stored_response.request_body) if stored_response else 0

    def with_previous_messages(self, session: str, conversation: Conversation) -> Conversation:
        """The conversation with the messages of the response that it continues by id.

        The system prompt is not continued, because providers require it anew.  An unknown id adds
        nothing: see `is_previous_missing`.
        """
        previous = self.find(
            session, conversation.previous_response_id or conversation.stored_conversation_id
        )
        if previous is None:
            return conversation
        previous_responses = tuple(
            RequestMessage("assistant", turn.parts) for turn in previous.response_turns[:1]
        )
        messages = (*previous.conversation.messages, *previous_responses, *conversation.messages)
        return replace(conversation, messages=messages)

    def is_previous_missing(self, session: str, conversation: Conversation) -> bool:
        """Whether it continues a response that is not stored (any more)."""
        previous_id = conversation.previous_response_id
        return bool(previous_id) and self.find(session, previous_id) is None
