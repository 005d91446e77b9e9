"""Comparing two recorded exchanges: which differences are found, and which are significant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from llm_proxy.cassette import Cassette
from llm_proxy.diff.exchanges import ExchangeComparison, Strictness, compare_exchanges
from llm_proxy.exchange import Ending, ResponseHead
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.shell.library.library import Library
from raw_http import build_http_request
from stored_cassettes import (
    DONE_EVENT,
    SSE_HEAD,
    StoredResponse,
    chat_event,
    raw_chat_request,
    text_response,
    write_cassettes,
)

JSON = (("Content-Type", "application/json"),)


def record_cassettes(
    folder: Path, *responses: StoredResponse, request: bytes = raw_chat_request()
) -> list[Cassette]:
    library = Library(folder)
    return [library.load_cassette(path) for path in write_cassettes(folder, request, *responses)]


def chunk(**delta: Any) -> bytes:
    return b"data: " + orjson.dumps({"choices": [{"index": 0, "delta": delta}]}) + b"\n\n"


def stream_response(*events: bytes, **more: Any) -> StoredResponse:
    return StoredResponse(
        tuple((float(at_ms), data) for at_ms, data in enumerate((*events, DONE_EVENT), 1)), **more
    )


def document_response(status: int = 200, **body: Any) -> StoredResponse:
    data = orjson.dumps(body)
    return StoredResponse(((1.0, data),), head=ResponseHead(status, "", JSON, "length", len(data)))


def significant_differences(comparison: ExchangeComparison) -> list[tuple[str, str, str, str]]:
    return [
        (difference.kind.value, difference.path, difference.first_value, difference.second_value)
        for difference in comparison.differences
        if difference.is_significant
    ]


def insignificant_differences(comparison: ExchangeComparison) -> set[tuple[str, str]]:
    return {
        (difference.kind.value, difference.path)
        for difference in comparison.differences
        if not difference.is_significant
    }


def test_a_cassette_is_the_same_as_itself(tmp_path: Path) -> None:
    [one] = record_cassettes(tmp_path, text_response("Hello"))

    assert compare_exchanges(one, one) == ExchangeComparison(one.file, one.file, "exact", ())


def test_timing_differences_are_insignificant(tmp_path: Path) -> None:
    one, other = record_cassettes(
        tmp_path, text_response("a", "b", gap=10), text_response("a", "b", gap=20)
    )

    comparison = compare_exchanges(one, other)

    assert comparison.is_same
    assert [
        (difference.path, difference.first_value, difference.second_value)
        for difference in comparison.differences
    ] == [
        ("first byte", "10 ms", "20 ms"),
        ("longest gap", "10 ms", "20 ms"),
        ("end", "30 ms", "60 ms"),
    ]


def test_request_differences_have_json_paths(tmp_path: Path) -> None:
    [one] = record_cassettes(tmp_path, text_response("Hello"))
    [other] = record_cassettes(
        tmp_path,
        text_response("Hello"),
        request=raw_chat_request("bye", path="/@b/v1/chat/completions"),
    )

    assert significant_differences(compare_exchanges(one, other)) == [
        ("request", "$.messages[0].content", '"hi"', '"bye"'),
    ]


def test_ignore_rules_exclude_their_paths(tmp_path: Path) -> None:
    [one] = record_cassettes(tmp_path, text_response("Hello"))
    [other] = record_cassettes(tmp_path, text_response("Hello"), request=raw_chat_request("bye"))

    rules = parse_rules(["ignore=$.messages[0].content"])

    assert compare_exchanges(one, other, "exact", rules).is_same


def test_a_text_difference_is_reported_with_its_bytes(tmp_path: Path) -> None:
    one, other = record_cassettes(
        tmp_path, stream_response(chat_event("One day")), stream_response(chat_event("One night"))
    )

    [text, size, digest, byte_difference] = significant_differences(compare_exchanges(one, other))

    assert text == ("content", "turns[0].parts[0].text", "One day", "One night")
    assert size == (
        "bytes",
        "size",
        str(one.response_end.size_bytes),
        str(other.response_end.size_bytes),
    )
    assert digest == ("bytes", "sha256", one.response_end.sha256, other.response_end.sha256)
    kind, where, before, after = byte_difference
    assert (kind, where) == ("bytes", f"from byte {one.response_body.index(b'day')}")
    assert before == 'message 1: data: {"choices":[{"index":0,"delta":{"content":"One day"}}]}'
    assert after.endswith('"One night"}}]}')


CALL: Any = {"index": 0, "id": "call_1", "function": {"name": "weather", "arguments": '{"a": 1}'}}
OTHER_CALL: Any = {"index": 0, "id": "call_2", "function": {"name": "time", "arguments": '{"a":2}'}}


def test_a_call_difference_lists_tool_id_and_arguments(tmp_path: Path) -> None:
    one, other = record_cassettes(
        tmp_path,
        stream_response(chunk(tool_calls=[CALL])),
        stream_response(chunk(tool_calls=[OTHER_CALL])),
    )

    differences = [
        item
        for item in significant_differences(compare_exchanges(one, other))
        if item[0] != "bytes"
    ]

    assert differences == [
        ("tools", "turns[0].tools", "weather", "time"),
        ("id", "turns[0].parts[0].id", "call_1", "call_2"),
        ("content", "turns[0].parts[0].name", "weather", "time"),
        ("content", "turns[0].parts[0].arguments.a", "1", "2"),
    ]


def test_a_different_ending_is_significant_except_for_shape(tmp_path: Path) -> None:
    one, other = record_cassettes(
        tmp_path,
        text_response("a"),
        StoredResponse(((0.0, chat_event("a")), (0.0, DONE_EVENT)), Ending.RST),
    )

    assert not compare_exchanges(one, other, "exact").is_same
    assert not compare_exchanges(one, other, "live").is_same
    assert compare_exchanges(one, other, "shape").is_same


def test_volatile_headers_are_insignificant(tmp_path: Path) -> None:
    def make_response(remaining: str, version: str) -> StoredResponse:
        fields = (("X-RateLimit-Remaining-Requests", remaining), ("OpenAI-Version", version))
        return stream_response(
            chat_event("a"), head=ResponseHead(200, "OK", (*SSE_HEAD.headers, *fields), "chunked")
        )

    one, other = record_cassettes(
        tmp_path, make_response("59", "2020"), make_response("58", "2021")
    )
    comparison = compare_exchanges(one, other)

    assert significant_differences(comparison) == [("header", "openai-version", "2020", "2021")]
    assert insignificant_differences(comparison) == {("volatile", "x-ratelimit-remaining-requests")}


def test_everything_in_a_head_but_its_order_is_significant(tmp_path: Path) -> None:
    """Responses that a client can distinguish are not the same."""
    head = ResponseHead(200, "", (*SSE_HEAD.headers, ("X-Empty", "")), "close")
    one, other = record_cassettes(
        tmp_path, stream_response(chat_event("a")), stream_response(chat_event("a"), head=head)
    )

    assert significant_differences(compare_exchanges(one, other)) == [
        ("header", "status", "200 OK", "200"),
        ("header", "framing", "chunked", "close"),
        ("header", "x-empty", "", '""'),
    ]
    assert compare_exchanges(one, other, "live").is_same


class TestLive:
    def test_ids_times_and_texts_are_insignificant(self, tmp_path: Path) -> None:
        def make_response(text: str, tokens: int) -> StoredResponse:
            return document_response(
                id=f"chatcmpl-{tokens}",
                created=tokens,
                model="m-1",
                choices=[{"index": 0, "finish_reason": "stop", "message": {"content": text}}],
                usage={"prompt_tokens": 1, "completion_tokens": tokens, "total_tokens": 1 + tokens},
            )

        one, other = record_cassettes(
            tmp_path, make_response("Hello", 2), make_response("Good day", 3)
        )
        comparison = compare_exchanges(one, other, "live")

        assert significant_differences(comparison) == []
        assert {
            ("id", "turns[0].id"),
            ("content", "turns[0].parts[0].text"),
        } <= insignificant_differences(comparison)
        assert ("usage", "turns[0].usage.output") in insignificant_differences(comparison)

    def test_structural_differences_are_significant(self, tmp_path: Path) -> None:
        one, other = record_cassettes(
            tmp_path,
            stream_response(
                chunk(content="a"), b'data: {"choices":[{"index":0,"finish_reason":"stop"}]}\n\n'
            ),
            stream_response(chunk(content="a", note="b"), chunk(tool_calls=[CALL])),
        )

        comparison = compare_exchanges(one, other, "live")

        assert ("finish", "turns[0].finish", "stop", "") in significant_differences(comparison)
        assert ("tools", "turns[0].tools", "", "weather") in significant_differences(comparison)
        assert ("shape", "body $.choices[*].delta.note", "", "string") in significant_differences(
            comparison
        )
        assert (
            "shape",
            "body $.choices[*].finish_reason",
            "string",
            "",
        ) in significant_differences(comparison)


class TestShape:
    @pytest.mark.parametrize(
        ("one", "other", "expected"),
        [
            (document_response(a=1), document_response(a=2.5), []),
            (document_response(a=[1]), document_response(a=[1, 2]), []),
            (
                document_response(a=1),
                document_response(a="1"),
                [("shape", "body $.a", "number", "string")],
            ),
            (document_response(a=None), document_response(), [("shape", "body $.a", "null", "")]),
            (document_response(arguments={"a": 1}), document_response(arguments={"b": "c"}), []),
            (document_response(), document_response(429), [("status", "status", "200", "429")]),
            (
                document_response(type="x"),
                document_response(type="y"),
                [
                    ("shape", "x", "event x", "missing"),
                    ("shape", "y", "missing", "event y"),
                ],
            ),
            (
                stream_response(b'data: {"type":"a"}\n\n', b'data: {"type":"b"}\n\n'),
                stream_response(b'data: {"type":"b"}\n\n', b'data: {"type":"a"}\n\n'),
                [("shape", "order of events", "a, b, [DONE]", "b, a, [DONE]")],
            ),
            (stream_response(b"event: ping\ndata: {}\n\n"), stream_response(b": comment\n\n"), []),
            (stream_response(b"data: {\n\n"), stream_response(b"data: x\n\n"), []),
        ],
    )
    def test_types_count_and_values_do_not(
        self,
        tmp_path: Path,
        one: StoredResponse,
        other: StoredResponse,
        expected: list[tuple[str, ...]],
    ) -> None:
        first, second = record_cassettes(tmp_path, one, other)

        assert significant_differences(compare_exchanges(first, second, "shape")) == expected

    def test_a_stream_and_a_document_differ_in_framing_and_content_type(
        self, tmp_path: Path
    ) -> None:
        first, second = record_cassettes(
            tmp_path, stream_response(chunk(content="a")), document_response(a=1)
        )

        differences = significant_differences(compare_exchanges(first, second, "shape"))

        assert differences[:2] == [
            ("shape", "content-type", "text/event-stream", "application/json"),
            ("shape", "framing", "sse", "whole"),
        ]


@pytest.mark.parametrize("strictness", ["exact", "live", "shape"])
def test_bytes_of_any_kind_are_compared(tmp_path: Path, strictness: Strictness) -> None:
    request = build_http_request("/v1/other", b"\xff\x00")
    head = ResponseHead(200, "OK", (), "close")
    one, other = record_cassettes(
        tmp_path,
        StoredResponse(((1.0, b"\xff\xfe"),), head=head),
        StoredResponse(((1.0, b"\xff\xfd"),), head=head),
        request=request,
    )

    comparison = compare_exchanges(one, other, strictness)

    assert comparison.is_same is (strictness != "exact")


def test_responses_of_two_dialects_are_compared_by_their_contents(tmp_path: Path) -> None:
    arguments = {"city": "Bonn"}
    called = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "weather", "arguments": '{ "city": "Bonn" }'},
    }
    message = {"role": "assistant", "content": "I look.", "tool_calls": [called]}
    usage = {"prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17}
    [chat] = record_cassettes(
        tmp_path / "chat",
        document_response(
            id="chatcmpl-1",
            model="gpt",
            choices=[{"index": 0, "message": message, "finish_reason": "tool_calls"}],
            usage=usage,
        ),
    )
    thought: Any = {"type": "thinking", "thinking": "Hm.", "signature": "SIG"}
    text: Any = {"type": "text", "text": "I look now."}
    content = [
        thought,
        text,
        {"type": "tool_use", "id": "t1", "name": "weather", "input": arguments},
    ]
    [messages] = record_cassettes(
        tmp_path / "messages",
        document_response(
            id="msg_1",
            type="message",
            role="assistant",
            model="claude",
            content=content,
            stop_reason="tool_use",
            usage={"input_tokens": 8, "cache_read_input_tokens": 4, "output_tokens": 6},
        ),
        request=build_http_request("/v1/messages", b'{"model":"claude"}', "anthropic-version: x"),
    )

    comparison = compare_exchanges(chat, messages, "turns")

    assert comparison.is_same
    assert {
        difference.path: (difference.first_value, difference.second_value)
        for difference in comparison.differences
    } == {
        "turns[0].text": ("I look.", "I look now."),
        "turns[0].reasoning": ("", "Hm."),
        "turns[0].usage.output": ("5", "6"),
        "turns[0].usage.total": ("17", "18"),
        "turns[0].model": ("gpt", "claude"),
    }


def test_another_tool_or_finish_is_significant_between_dialects(tmp_path: Path) -> None:
    one, other = record_cassettes(
        tmp_path,
        document_response(choices=[{"index": 0, "message": {}, "finish_reason": "length"}]),
        document_response(
            choices=[
                {
                    "index": 0,
                    "message": {"tool_calls": [{"id": "a", "function": {"name": "f"}}]},
                    "finish_reason": "tool_calls",
                }
            ]
        ),
    )

    assert significant_differences(compare_exchanges(one, other, "turns")) == [
        ("tools", "turns[0].tools", "", "f"),
        ("finish", "turns[0].finish", "length", "tool_calls"),
    ]
