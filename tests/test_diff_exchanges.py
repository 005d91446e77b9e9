"""How two recorded exchanges are told apart, and what of it counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from llm_proxy.cassette import Cassette
from llm_proxy.diff.exchanges import ExchangeComparison, Manner, compare_exchanges
from llm_proxy.exchange import Ending, ResponseHead
from llm_proxy.matching.grammar import parse_rules
from llm_proxy.shell.library.library import Library
from raw_http import post
from stored_cassettes import DONE, STREAM, Answer, chat, event, put, says

JSON = (("Content-Type", "application/json"),)


def recorded(folder: Path, *answers: Answer, request: bytes = chat()) -> list[Cassette]:
    library = Library(folder)
    return [library.load_cassette(path) for path in put(folder, request, *answers)]


def chunk(**delta: Any) -> bytes:
    return b"data: " + orjson.dumps({"choices": [{"index": 0, "delta": delta}]}) + b"\n\n"


def stream(*events: bytes, **more: Any) -> Answer:
    return Answer(tuple((float(it), data) for it, data in enumerate((*events, DONE), 1)), **more)


def whole(status: int = 200, **body: Any) -> Answer:
    data = orjson.dumps(body)
    return Answer(((1.0, data),), head=ResponseHead(status, "", JSON, "length", len(data)))


def counting(found: ExchangeComparison) -> list[tuple[str, str, str, str]]:
    return [
        (difference.kind.value, difference.path, difference.one, difference.other)
        for difference in found.differences
        if difference.is_significant
    ]


def shown(found: ExchangeComparison) -> set[tuple[str, str]]:
    return {
        (difference.kind.value, difference.path)
        for difference in found.differences
        if not difference.is_significant
    }


def test_a_cassette_is_the_same_as_itself(tmp_path: Path) -> None:
    [one] = recorded(tmp_path, says("Hello"))

    assert compare_exchanges(one, one) == ExchangeComparison(one.file, one.file, "exact", ())


def test_times_are_told_and_do_not_count(tmp_path: Path) -> None:
    one, other = recorded(tmp_path, says("a", "b", gap=10), says("a", "b", gap=20))

    found = compare_exchanges(one, other)

    assert found.is_same
    assert [
        (difference.path, difference.one, difference.other) for difference in found.differences
    ] == [
        ("first byte", "10 ms", "20 ms"),
        ("longest gap", "10 ms", "20 ms"),
        ("end", "30 ms", "60 ms"),
    ]


def test_what_was_asked_is_told_apart_by_its_paths(tmp_path: Path) -> None:
    [one] = recorded(tmp_path, says("Hello"))
    [other] = recorded(tmp_path, says("Hello"), request=chat("bye", path="/@b/v1/chat/completions"))

    assert counting(compare_exchanges(one, other)) == [
        ("asked", "$.messages[0].content", '"hi"', '"bye"'),
    ]


def test_rules_overlook_what_they_name(tmp_path: Path) -> None:
    [one] = recorded(tmp_path, says("Hello"))
    [other] = recorded(tmp_path, says("Hello"), request=chat("bye"))

    rules = parse_rules(["ignore=$.messages[0].content"])

    assert compare_exchanges(one, other, "exact", rules).is_same


def test_another_text_is_told_with_its_bytes(tmp_path: Path) -> None:
    one, other = recorded(tmp_path, stream(event("One day")), stream(event("One night")))

    [text, size, digest, place] = counting(compare_exchanges(one, other))

    assert text == ("said", "turns[0].parts[0].text", "One day", "One night")
    assert size == ("bytes", "size", str(one.end.size), str(other.end.size))
    assert digest == ("bytes", "sha256", one.end.sha256, other.end.sha256)
    kind, where, before, after = place
    assert (kind, where) == ("bytes", f"from byte {one.body.index(b'day')}")
    assert before == 'message 1: data: {"choices":[{"index":0,"delta":{"content":"One day"}}]}'
    assert after.endswith('"One night"}}]}')


CALL: Any = {"index": 0, "id": "call_1", "function": {"name": "weather", "arguments": '{"a": 1}'}}
OTHER: Any = {"index": 0, "id": "call_2", "function": {"name": "time", "arguments": '{"a":2}'}}


def test_a_call_is_told_by_its_tool_its_id_and_each_argument(tmp_path: Path) -> None:
    one, other = recorded(
        tmp_path, stream(chunk(tool_calls=[CALL])), stream(chunk(tool_calls=[OTHER]))
    )

    said = [item for item in counting(compare_exchanges(one, other)) if item[0] != "bytes"]

    assert said == [
        ("tools", "turns[0].tools", "weather", "time"),
        ("id", "turns[0].parts[0].id", "call_1", "call_2"),
        ("said", "turns[0].parts[0].name", "weather", "time"),
        ("said", "turns[0].parts[0].arguments.a", "1", "2"),
    ]


def test_an_ending_that_is_another_counts_in_any_manner_but_that_of_shapes(tmp_path: Path) -> None:
    one, other = recorded(tmp_path, says("a"), Answer(((0.0, event("a")), (0.0, DONE)), Ending.RST))

    assert not compare_exchanges(one, other, "exact").is_same
    assert not compare_exchanges(one, other, "live").is_same
    assert compare_exchanges(one, other, "shape").is_same


def test_headers_of_the_moment_do_not_count(tmp_path: Path) -> None:
    def answer(left: str, version: str) -> Answer:
        fields = (("X-RateLimit-Remaining-Requests", left), ("OpenAI-Version", version))
        return stream(
            event("a"), head=ResponseHead(200, "OK", (*STREAM.headers, *fields), "chunked")
        )

    one, other = recorded(tmp_path, answer("59", "2020"), answer("58", "2021"))
    found = compare_exchanges(one, other)

    assert counting(found) == [("header", "openai-version", "2020", "2021")]
    assert shown(found) == {("moment", "x-ratelimit-remaining-requests")}


def test_all_of_a_head_but_its_order_counts(tmp_path: Path) -> None:
    """Two answers that a client could tell apart are not the same."""
    head = ResponseHead(200, "", (*STREAM.headers, ("X-Empty", "")), "close")
    one, other = recorded(tmp_path, stream(event("a")), stream(event("a"), head=head))

    assert counting(compare_exchanges(one, other)) == [
        ("header", "status", "200 OK", "200"),
        ("header", "framing", "chunked", "close"),
        ("header", "x-empty", "", '""'),
    ]
    assert compare_exchanges(one, other, "live").is_same


class TestLive:
    def test_what_no_two_answers_share_does_not_count(self, tmp_path: Path) -> None:
        def answer(text: str, tokens: int) -> Answer:
            return whole(
                id=f"chatcmpl-{tokens}",
                created=tokens,
                model="m-1",
                choices=[{"index": 0, "finish_reason": "stop", "message": {"content": text}}],
                usage={"prompt_tokens": 1, "completion_tokens": tokens, "total_tokens": 1 + tokens},
            )

        one, other = recorded(tmp_path, answer("Hello", 2), answer("Good day", 3))
        found = compare_exchanges(one, other, "live")

        assert counting(found) == []
        assert {("id", "turns[0].id"), ("said", "turns[0].parts[0].text")} <= shown(found)
        assert ("usage", "turns[0].usage.output") in shown(found)

    def test_what_a_client_could_stumble_over_does(self, tmp_path: Path) -> None:
        one, other = recorded(
            tmp_path,
            stream(
                chunk(content="a"), b'data: {"choices":[{"index":0,"finish_reason":"stop"}]}\n\n'
            ),
            stream(chunk(content="a", note="b"), chunk(tool_calls=[CALL])),
        )

        found = compare_exchanges(one, other, "live")

        assert ("finish", "turns[0].finish", "stop", "") in counting(found)
        assert ("tools", "turns[0].tools", "", "weather") in counting(found)
        assert ("shape", "body $.choices[*].delta.note", "", "text") in counting(found)
        assert ("shape", "body $.choices[*].finish_reason", "text", "") in counting(found)


class TestShape:
    @pytest.mark.parametrize(
        ("one", "other", "differs"),
        [
            (whole(a=1), whole(a=2.5), []),
            (whole(a=[1]), whole(a=[1, 2]), []),
            (whole(a=1), whole(a="1"), [("shape", "body $.a", "number", "text")]),
            (whole(a=None), whole(), [("shape", "body $.a", "null", "")]),
            (whole(arguments={"a": 1}), whole(arguments={"b": "c"}), []),
            (whole(), whole(429), [("status", "status", "200", "429")]),
            (
                whole(type="x"),
                whole(type="y"),
                [
                    ("shape", "x", "event x", "no such event"),
                    ("shape", "y", "no such event", "event y"),
                ],
            ),
            (
                stream(b'data: {"type":"a"}\n\n', b'data: {"type":"b"}\n\n'),
                stream(b'data: {"type":"b"}\n\n', b'data: {"type":"a"}\n\n'),
                [("shape", "order of events", "a, b, [DONE]", "b, a, [DONE]")],
            ),
            (stream(b"event: ping\ndata: {}\n\n"), stream(b": comment\n\n"), []),
            (stream(b"data: {\n\n"), stream(b"data: x\n\n"), []),
        ],
    )
    def test_types_count_and_values_do_not(
        self, tmp_path: Path, one: Answer, other: Answer, differs: list[tuple[str, ...]]
    ) -> None:
        first, second = recorded(tmp_path, one, other)

        assert counting(compare_exchanges(first, second, "shape")) == differs

    def test_a_stream_and_a_document_differ_in_framing_and_content_type(
        self, tmp_path: Path
    ) -> None:
        first, second = recorded(tmp_path, stream(chunk(content="a")), whole(a=1))

        found = counting(compare_exchanges(first, second, "shape"))

        assert found[:2] == [
            ("shape", "content-type", "text/event-stream", "application/json"),
            ("shape", "framing", "sse", "whole"),
        ]


@pytest.mark.parametrize("manner", ["exact", "live", "shape"])
def test_bytes_of_any_kind_are_compared(tmp_path: Path, manner: Manner) -> None:
    request = post("/v1/other", b"\xff\x00")
    head = ResponseHead(200, "OK", (), "close")
    one, other = recorded(
        tmp_path,
        Answer(((1.0, b"\xff\xfe"),), head=head),
        Answer(((1.0, b"\xff\xfd"),), head=head),
        request=request,
    )

    found = compare_exchanges(one, other, manner)

    assert found.is_same is (manner != "exact")
