"""Faults in recorded responses: the shipped cassettes, and some rows of the corpus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

import corpus
from case_tables import each_row
from corpus_comparison import row_response
from corpus_framing import with_framing
from fault_injection import apply_faults, response_burst, routed_request, sent_body
from llm_proxy.actions import Begin
from llm_proxy.cassette import Cassette
from llm_proxy.cassette.reader import parse_cassette
from llm_proxy.cassette_views import stored_dialect_response
from llm_proxy.dialects import chat_dialects
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.json_api import succeeded
from llm_proxy.exchange import Request
from llm_proxy.framing import split_messages
from llm_proxy.turns import FinishReason, Refusal, Turn
from shipped_scenarios import CASSETTES

_ROWS_PER_WIRE: Final = 2
"""Rows checked per wire."""
_MIN_MESSAGES: Final = 6
"""The least number of messages of a checked stream."""

CASSETTE_FILES: Final = sorted(
    path for path in CASSETTES.rglob("*.jsonl") if path.parent.parent.name in chat_dialects()
)


@dataclass(frozen=True, slots=True)
class RecordedExchange:
    """A recorded request and the provider's response."""

    request: Request
    provider_response: DialectResponse

    @property
    def turn(self) -> Turn:
        """The first turn of the response."""
        return routed_request(self.request).dialect.decode_response(self.provider_response)[0]

    def with_rule(self, rule: str) -> tuple[DialectResponse, Turn, str]:
        """The response under a rule, its first turn, and why the rule was skipped (or "")."""
        actions, injection = apply_faults(
            self.request, response_burst(self.provider_response), rule
        )
        head = next(item.head for item in actions if isinstance(item, Begin))
        codec = self.provider_response.codec_name
        sent_response = DialectResponse(head, codec, split_messages(codec, sent_body(actions)))
        turns = routed_request(self.request).dialect.decode_response(sent_response)
        return sent_response, (turns or (Turn(()),))[0], injection.records[0].skipped


_PATHS_NEVER_ENCODED: Final = ("/v1/chat", "/v1/complete")
"""Cohere's first chat API and Anthropic's completions: faults cannot encode their turns anew."""


def check_faults(exchange: RecordedExchange) -> None:
    """Each fault has its meaning, and what was sent before it is unchanged."""
    dialect, original = routed_request(exchange.request).dialect, exchange.turn
    messages = exchange.provider_response.framed_messages
    half_count = 0 if exchange.provider_response.codec_name == "whole" else len(messages) // 2
    is_never_encoded = exchange.request.path in _PATHS_NEVER_ENCODED
    for name in ("error-event", "finish-length"):
        if name == "error-event" and exchange.provider_response.codec_name == "whole":
            continue
        sent_response, turn, skipped = exchange.with_rule(f"{name},after={half_count}")
        if is_never_encoded:
            assert "cannot generate a response" in skipped
        else:
            assert skipped in ("", "the finish reason had already been sent")
        if skipped:
            continue
        assert tuple(sent_response.framed_messages[:half_count]) == tuple(messages[:half_count])
        assert dialect.completeness(sent_response).is_complete
        assert original.text.startswith(turn.text)
        assert turn.id == original.id
        if name == "error-event":
            assert turn.failure is not None
        else:
            assert (turn.finish, turn.failure) == (FinishReason.LENGTH, None)
    sent_response, turn, skipped = exchange.with_rule("refusal,message=No.")
    assert dialect.completeness(sent_response).is_complete
    if is_never_encoded:
        assert "cannot generate a response" in skipped
        return
    assert skipped == ""
    assert turn.text == "No." or turn.finish is FinishReason.CONTENT_FILTER or _refuses(turn)
    assert (turn.id, turn.model) == (original.id, original.model)


def _refuses(turn: Turn) -> bool:
    return any(isinstance(part, Refusal) and part.text == "No." for part in turn.parts)


@each_row("file", CASSETTE_FILES)
def test_faults_in_shipped_cassettes_mean_what_they_should(file: Path) -> None:
    cassette: Cassette = parse_cassette(str(file), file.read_bytes())
    exchange = RecordedExchange(cassette.request, stored_dialect_response(cassette))
    if succeeded(exchange.provider_response.head):
        check_faults(exchange)
    else:
        for rule in ("refusal", "finish-length", "bad-tool-call"):
            sent_response, turn, skipped = exchange.with_rule(rule)
            assert (sent_response.framed_messages, turn) == (
                list(exchange.provider_response.framed_messages),
                exchange.turn,
            )
            assert skipped == "the response already has an error status"


def corpus_exchanges() -> Iterator[RecordedExchange]:
    """A few rows of each wire: streams of chat dialects with text."""
    row_counts: defaultdict[str, int] = defaultdict(int)
    for row in corpus.rows():
        if row.fidelity != "exact" or not row.streaming or row_counts[row.wire] == _ROWS_PER_WIRE:
            continue
        sent_row = with_framing(row)
        provider_response = row_response(sent_row)
        exchange = RecordedExchange(sent_row.request, provider_response)
        if (
            len(provider_response.framed_messages) < _MIN_MESSAGES
            or provider_response.codec_name == "whole"
            or not _has_chat_text(exchange)
        ):
            continue
        row_counts[row.wire] += 1
        yield exchange


def _has_chat_text(exchange: RecordedExchange) -> bool:
    call = routed_request(exchange.request)
    turns = call.dialect.decode_response(exchange.provider_response)
    has_text = bool(turns and turns[0].text and not turns[0].failure)
    return has_text and call.dialect.name in chat_dialects()


@pytest.mark.corpus
def test_faults_in_corpus_rows_mean_what_they_should() -> None:
    checked = 0
    for exchange in corpus_exchanges():
        check_faults(exchange)
        checked += 1
    assert checked > 6 * _ROWS_PER_WIRE
