"""Encoded responses as Anthropic's SDK parses them; and the round trip of every recorded answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import anthropic
import httpx2
import pytest

import corpus
from anthropic_encoding import COMPLETION_REQUEST, STREAM_REQUEST, WHOLE_REQUEST
from anthropic_events import DIALECT, json_response
from case_tables import each_row
from conformance_cases import CASES, Case
from corpus_framing import with_framing
from dialect_manners import ENCODE_CONTEXT
from llm_proxy import dialects, framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.turns import Failure, FinishReason, Metadata, Part, Text, ToolCall, ToolResult, Turn
from thoroughness import is_thorough

Responder = Callable[[Request], DialectResponse]


def client(respond: Responder) -> anthropic.Anthropic:
    """The SDK with `respond` as its server and without retries."""

    def handle(sdk_request: httpx2.Request) -> httpx2.Response:
        url = sdk_request.url
        request = Request(
            sdk_request.method,
            url.path,
            url.query.decode(),
            tuple(sdk_request.headers.items()),
            sdk_request.content,
        )
        assert dialects.dialect_of_request(request) is dialects.dialect_named("anthropic")
        response = DIALECT.auxiliary_response(request, ENCODE_CONTEXT) or respond(request)
        body = b"".join(response.framed_messages)
        return httpx2.Response(
            response.head.status, headers=list(response.head.headers), content=body
        )

    transport = httpx2.Client(transport=httpx2.MockTransport(handle))
    return anthropic.Anthropic(
        api_key="none", base_url="http://127.0.0.1", max_retries=0, http_client=transport
    )


def respond_with(turn: Turn) -> Responder:
    return lambda request: DIALECT.encode_response(request, (turn,), ENCODE_CONTEXT)


def sdk_message(turn: Turn, *, stream: bool) -> dict[str, Any]:
    """The message that the SDK makes of the encoded turn."""
    with client(respond_with(turn)) as sdk:
        messages = sdk.beta.messages
        if not stream:
            return messages.create(model="claude-sonnet-5", max_tokens=9, messages=[]).to_dict()
        with messages.stream(model="claude-sonnet-5", max_tokens=9, messages=[]) as events:
            return events.get_final_message().to_dict()


SEARCH: Final = ToolCall("s", "web_search", '{"query":"q"}', (("type", "server_tool_use"),))
SEARCH_RESULT: Final = ToolResult(
    "s",
    '[{"encrypted_content":"e","title":"t","type":"web_search_result","url":"u"}]',
    metadata=(("type", "web_search_tool_result"),),
)
EXTRA_CASES: Final = (
    Case("tool of the provider", Turn((SEARCH, SEARCH_RESULT, Text("It is.")), FinishReason.STOP)),
    Case("paused", Turn((SEARCH, SEARCH_RESULT), FinishReason.PAUSED)),
    Case("tool of another", Turn((ToolCall("c", "f", "{}"), ToolResult("c", "5"), Text("Five.")))),
)
CASES_WITHOUT_FAILURE: Final = [
    case
    for case in (*CASES, *EXTRA_CASES)
    if case.turn.failure is None and (case.name != "long" or is_thorough())
]
each_case = each_row("case", CASES_WITHOUT_FAILURE)


@each_case
@each_row("stream", [True, False], ids=["stream", "whole"])
def test_the_sdk_receives_the_encoded_turn(case: Case, stream: bool) -> None:
    (received,) = DIALECT.decode_response(json_response(**sdk_message(case.turn, stream=stream)))
    (expected,) = DIALECT.representable_turns(WHOLE_REQUEST, (case.turn,), ENCODE_CONTEXT).turns

    assert _with_sorted_metadata(received) == _with_sorted_metadata(expected)


def test_the_sdk_raises_the_error_that_ends_a_stream() -> None:
    turn = Turn((Text("Hello"),), failure=Failure("Overloaded", "overloaded_error"))
    with (
        client(respond_with(turn)) as sdk,
        sdk.messages.stream(model="m", max_tokens=9, messages=[]) as events,
        pytest.raises(anthropic.APIStatusError, match="Overloaded") as raised,
    ):
        events.until_done()

    (block,) = events.current_message_snapshot.content
    assert block.type == "text"
    assert block.text == "Hello"
    assert raised.value.status_code == 200
    assert raised.value.type == "overloaded_error"


@each_row(
    ("status", "exception_type"),
    [
        (400, anthropic.BadRequestError),
        (401, anthropic.AuthenticationError),
        (402, anthropic.APIStatusError),
        (403, anthropic.PermissionDeniedError),
        (404, anthropic.NotFoundError),
        (409, anthropic.ConflictError),
        (413, anthropic.APIStatusError),
        (422, anthropic.UnprocessableEntityError),
        (429, anthropic.RateLimitError),
        (500, anthropic.InternalServerError),
        (503, anthropic.APIStatusError),
        (504, anthropic.APIStatusError),
        (529, anthropic.APIStatusError),
    ],
)
@each_row("stream", [True, False], ids=["stream", "whole"])
def test_the_sdk_raises_each_status_as_its_own(
    status: int, exception_type: type[anthropic.APIStatusError], stream: bool
) -> None:
    response = DIALECT.error_response(status, Failure("Not now."), ENCODE_CONTEXT, 7)
    with (
        client(lambda _: response) as sdk,
        pytest.raises(exception_type, match=r"Not now\.") as raised,
    ):
        sdk.messages.create(model="m", max_tokens=9, messages=[], stream=stream)

    body: Any = raised.value.body
    assert raised.value.status_code == status
    assert raised.value.request_id == body["request_id"] == ENCODE_CONTEXT.fake_identifier("req_")
    assert raised.value.response.headers["retry-after"] == "7"


def test_the_sdk_lists_models_and_counts_tokens() -> None:
    with client(respond_with(Turn(()))) as sdk:
        assert [item.id for item in sdk.models.list(limit=1)] == ["small", "large"]
        assert sdk.models.retrieve("small").created_at.year == 2023
        with pytest.raises(anthropic.NotFoundError, match="model: other"):
            sdk.models.retrieve("other")
        count = sdk.messages.count_tokens(
            model="m", messages=[{"role": "user", "content": "12345678"}]
        )
    assert count.input_tokens == 2


WIRE_PREFIXES: Final = ("anthropic.messages.", "anthropic.complete.")
SPLICED_ROW_ID: Final = "ab068f9420ec7f19"
"""The row that was spliced: its first message ends inside a call's arguments."""


def _with_sorted_metadata(turn: Turn) -> Turn:
    """The turn with all metadata sorted by key, so that its order does not matter."""

    def sorted_part(part: Part) -> Part:
        if isinstance(part, Text):
            citations = (
                replace(citation, metadata=_sort_metadata(citation.metadata))
                for citation in part.citations
            )
            part = replace(part, citations=tuple(citations))
        return replace(part, metadata=_sort_metadata(part.metadata))

    return replace(
        turn, parts=tuple(map(sorted_part, turn.parts)), metadata=_sort_metadata(turn.metadata)
    )


def _sort_metadata(metadata: Metadata) -> Metadata:
    return tuple(sorted(metadata, key=lambda pair: pair[0]))


def _round_trip(turn: Turn, request: Request) -> Turn:
    """The turn encoded and decoded; asserts that nothing is lost."""
    converted = DIALECT.representable_turns(request, (turn,), ENCODE_CONTEXT)
    assert converted.losses == ()
    assert (
        DIALECT.decode_response(DIALECT.encode_response(request, (turn,), ENCODE_CONTEXT))
        == converted.turns
    )
    return converted.turns[0]


def _with_compact_arguments(turn: Turn) -> Turn:
    """The turn with its calls' arguments formatted as in a document."""

    def representable(part: Part) -> Part:
        turns = DIALECT.representable_turns(WHOLE_REQUEST, (Turn((part,)),), ENCODE_CONTEXT).turns
        return turns[0].parts[0]

    parts = (representable(part) if isinstance(part, ToolCall) else part for part in turn.parts)
    return replace(turn, parts=tuple(parts))


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_every_recorded_answer_round_trips() -> None:
    counts: Counter[str] = Counter()
    for row in map(with_framing, corpus.rows()):
        if not row.wire.startswith(WIRE_PREFIXES):
            continue
        codec = DIALECT.codec_name(row.request, row.head)
        stream, whole = STREAM_REQUEST, replace(STREAM_REQUEST, body=b"{}")
        for turn in DIALECT.decode_response(
            DialectResponse(row.head, codec, framing.split_messages(codec, row.body))
        ):
            counts["turns"] += 1
            if turn.failure:
                counts["errors"] += 1
                assert _round_trip(turn, whole) == turn, row.id
            elif "complete" in row.wire:
                counts["legacy"] += 1
                with pytest.raises(NotRepresentable, match="only on /v1/messages"):
                    DIALECT.encode_response(COMPLETION_REQUEST, (turn,), ENCODE_CONTEXT)
            elif turn.finish is None:
                counts["cut"] += 1
                expected = replace(turn, finish=FinishReason.TOOL_CALLS, finish_raw="tool_use")
                assert (_round_trip(turn, stream), row.id) == (expected, SPLICED_ROW_ID)
                with pytest.raises(NotRepresentable, match="the arguments of a call"):
                    DIALECT.representable_turns(whole, (turn,), ENCODE_CONTEXT)
            else:
                assert _with_sorted_metadata(_round_trip(turn, stream)) == _with_sorted_metadata(
                    turn
                ), row.id
                assert _with_sorted_metadata(_round_trip(turn, whole)) == _with_sorted_metadata(
                    _with_compact_arguments(turn)
                ), row.id
    assert counts == {"turns": 238, "errors": 24, "legacy": 9, "cut": 1}
