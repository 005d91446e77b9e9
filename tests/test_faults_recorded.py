"""Faults in what providers really sent: the shipped cassettes, and some of the corpus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

import corpus
from corpus_comparison import response
from corpus_framing import as_sent
from fault_injection import body, burst_of, call_of, struck
from llm_proxy.actions import Begin
from llm_proxy.cassette import Cassette
from llm_proxy.cassette.reader import read_cassette
from llm_proxy.cassette_views import dialect_response, stored_http_request
from llm_proxy.dialects import chat_dialects
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.json_api import succeeded
from llm_proxy.exchange import Request
from llm_proxy.framing import split_messages
from llm_proxy.turns import Finish, Refusal, Turn
from shipped_scenarios import CASSETTES

_EACH: Final = 2
"""Rows of a wire."""
_SAYS: Final = 6
"""Messages that a stream has at the least."""

FILES: Final = sorted(
    path for path in CASSETTES.rglob("*.jsonl") if path.parent.parent.name in chat_dialects()
)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a provider sent, and to what."""

    request: Request
    answer: DialectResponse

    @property
    def turn(self) -> Turn:
        """What it said first."""
        return call_of(self.request).dialect.decode(self.answer)[0]

    def under(self, rule: str) -> tuple[DialectResponse, Turn, str]:
        """What goes out under a rule, what that says, and why it did not strike."""
        gone, injection = struck(self.request, burst_of(self.answer), rule)
        head = next(item.head for item in gone if isinstance(item, Begin))
        codec = self.answer.codec
        told = DialectResponse(head, codec, split_messages(codec, body(gone)))
        turns = call_of(self.request).dialect.decode(told)
        return told, (turns or (Turn(()),))[0], injection.records[0].skipped


def check(it: Recorded) -> None:
    """Each fault says what it means, and what had gone out before it is as it was."""
    dialect, was = call_of(it.request).dialect, it.turn
    sent = it.answer.messages
    half = 0 if it.answer.codec == "whole" else len(sent) // 2
    for name in ("error-event", "finish-length"):
        if name == "error-event" and it.answer.codec == "whole":
            continue
        told, turn, skipped = it.under(f"{name},after={half}")
        assert skipped in ("", "the answer had told why it ends")
        if skipped:
            continue
        assert tuple(told.messages[:half]) == tuple(sent[:half])
        assert dialect.completeness(told).is_complete
        assert was.text.startswith(turn.text)
        assert turn.id == was.id
        if name == "error-event":
            assert turn.failure is not None
        else:
            assert (turn.finish, turn.failure) == (Finish.LENGTH, None)
    told, turn, skipped = it.under("refusal,message=No.")
    assert skipped == ""
    assert dialect.completeness(told).is_complete
    assert turn.text == "No." or turn.finish is Finish.CONTENT_FILTER or _refuses(turn)
    assert (turn.id, turn.model) == (was.id, was.model)


def _refuses(turn: Turn) -> bool:
    return any(isinstance(part, Refusal) and part.text == "No." for part in turn.parts)


@pytest.mark.parametrize("file", FILES, ids=lambda it: f"{it.parent.parent.name} {it.stem}")
def test_shipped_cassettes_say_what_faults_mean(file: Path) -> None:
    cassette: Cassette = read_cassette(str(file), file.read_bytes())
    it = Recorded(stored_http_request(cassette), dialect_response(cassette))
    if succeeded(it.answer.head):
        check(it)
    else:
        for rule in ("refusal", "finish-length", "bad-tool-call"):
            told, turn, skipped = it.under(rule)
            assert (told.messages, turn) == (list(it.answer.messages), it.turn)
            assert skipped == "the answer is an error already"


def some() -> Iterator[Recorded]:
    """A few rows of each wire: streams with words."""
    seen: defaultdict[str, int] = defaultdict(int)
    for row in corpus.rows():
        if row.fidelity != "exact" or not row.streaming or seen[row.wire] == _EACH:
            continue
        sent = as_sent(row)
        answer = response(sent)
        it = Recorded(sent.request, answer)
        if len(answer.messages) < _SAYS or answer.codec == "whole" or not _speaks(it):
            continue
        seen[row.wire] += 1
        yield it


def _speaks(it: Recorded) -> bool:
    call = call_of(it.request)
    turns = call.dialect.decode(it.answer)
    says = bool(turns and turns[0].text and not turns[0].failure)
    return says and call.dialect.name in chat_dialects()


@pytest.mark.corpus
def test_what_providers_really_sent_says_what_faults_mean() -> None:
    checked = 0
    for it in some():
        check(it)
        checked += 1
    assert checked > 6 * _EACH
