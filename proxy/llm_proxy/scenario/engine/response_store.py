"""The answers that were given, for requests that continue one or ask for it again by its id."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.conversation import Conversation, Message
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.turns import Turn

_KEPT: Final = 10_000
"""Answers; the oldest are forgotten."""
_MOST: Final = 64 * 1024 * 1024
"""Bytes of the requests that were answered; of more, the oldest are forgotten."""


@dataclass(frozen=True, slots=True)
class Given:
    """An answer that was given."""

    conversation: Conversation
    """What it answered, with all that came before."""
    turns: tuple[Turn, ...]
    delivery: Delivery
    body: bytes
    """Of the request, part of which an answer repeats."""
    dialect: str
    """The name of the dialect that told it."""


class Memory:
    """The latest answers, by session and id."""

    def __init__(self) -> None:
        self._given: OrderedDict[tuple[str, str], Given] = OrderedDict()
        self._bytes = 0

    def keep(self, session: str, given: Given) -> None:
        """Remember an answer by its id, and by that of the conversation which it adds to."""
        for name in filter(None, (given.turns[0].id, given.conversation.stored)):
            self._forget((session, name))
            self._given[session, name] = given
            self._bytes += len(given.body)
        while len(self._given) > _KEPT or self._bytes > _MOST:
            self._forget(next(iter(self._given)))

    def find(self, session: str, answer: str) -> Given | None:
        """The answer of that id."""
        return self._given.get((session, answer))

    def reset(self, session: str) -> None:
        """Forget this session's answers."""
        for key in [key for key in self._given if key[0] == session]:
            self._forget(key)

    def _forget(self, key: tuple[str, str]) -> None:
        given = self._given.pop(key, None)
        self._bytes -= len(given.body) if given else 0

    def continued(self, session: str, conversation: Conversation) -> Conversation:
        """The conversation with what came before, where it only names the answer it continues.

        The system prompt is not continued: providers want it said anew.  What is not known is not
        there: see `lacks`.
        """
        before = self.find(session, conversation.previous or conversation.stored)
        if before is None:
            return conversation
        said = tuple(Message("assistant", turn.parts) for turn in before.turns[:1])
        messages = (*before.conversation.messages, *said, *conversation.messages)
        return replace(conversation, messages=messages)

    def lacks(self, session: str, conversation: Conversation) -> bool:
        """Whether it continues an answer that was not given here, or is forgotten."""
        named = conversation.previous
        return bool(named) and self.find(session, named) is None
