"""Scripted failures look to a client like those of the provider."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from case_tables import each_row
from dialect_manners import MANNERS, Manner, json_request
from llm_proxy import framing
from llm_proxy.actions import Abort, Action, Begin, Burst, Send, Wait
from llm_proxy.dialects import DialectResponse, lenient_json
from llm_proxy.dialects.base import DecodedRequest
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import ResponseHead, header_value
from llm_proxy.framing import eventstream, sse
from llm_proxy.pacing import InstantPace, RecordedPace
from llm_proxy.scenario.scripted_response import FailResponse, response_actions
from raw_http import open_line, send_request
from scripted_server import ScriptedMode, serve_mode
from stored_cassettes import raw_chat_request
from waiting import wait_until

MANNERS_BY_NAME: Final = {item.name: item for item in MANNERS}
NAMES: Final = (
    "openai-chat", "openai-responses", "anthropic", "gemini", "ollama chat", "cohere /v2/chat",
    "bedrock",
)  # fmt: skip
"""A basic manner of each dialect; each has a `stream` and a `whole` form."""
for_each_name: Final = each_row("name", NAMES)
for_each_manner = each_row("manner", MANNERS, ids=(manner.name for manner in MANNERS))


def failure_actions(
    fail: FailResponse, manner: Manner = MANNERS_BY_NAME["openai-chat stream"]
) -> Burst:
    decoded_request = DecodedRequest(manner.dialect, manner.request, manner.context)
    return response_actions(
        fail,
        decoded_request,
        RecordedPace(4.0),
        9000.0,
    )


def error_response(fail: FailResponse, name: str) -> tuple[ResponseHead, Any]:
    """Return head and document of an error, which are the same for streamed and whole requests."""
    begin, send = failure_actions(fail, MANNERS_BY_NAME[f"{name} stream"])
    assert failure_actions(fail, MANNERS_BY_NAME[f"{name} whole"]) == (begin, send)
    assert isinstance(begin, Begin)
    assert isinstance(send, Send)
    assert (begin.head.framing, begin.head.content_length) == ("length", len(send.data))
    return begin.head, json.loads(send.data)


def should_retry(head: ResponseHead) -> str | None:
    return header_value(head.headers, "x-should-retry")


def error_message(name: str, document: Any) -> str:
    """Return the error message as the dialect decodes it."""
    response = DialectResponse(
        ResponseHead(500, "", (), "length"), "whole", (json.dumps(document).encode(),)
    )
    [turn] = MANNERS_BY_NAME[f"{name} whole"].dialect.decode_response(response)
    assert turn.failure is not None
    return turn.failure.message


ERROR_TYPES: Final[dict[str, Callable[[ResponseHead, Any], tuple[Any, ...]]]] = {
    "openai-chat": lambda _, document: (document["error"]["type"],),
    "openai-responses": lambda _, document: (document["error"]["type"],),
    "anthropic": lambda _, document: (document["type"], document["error"]["type"]),
    "gemini": lambda _, document: (document["error"]["code"], document["error"]["status"]),
    "ollama chat": lambda _, document: tuple(document),
    "cohere /v2/chat": lambda _, document: tuple(document),
    "bedrock": lambda head, _: (header_value(head.headers, "x-amzn-ErrorType"),),
}
"""The values that distinguish the error types of each dialect."""


class TestErrors:
    @pytest.mark.shows("000-58", "000-63")
    @each_row(
        ("name", "kind"),
        [
            ("openai-chat", ("server_error",)),
            ("openai-responses", ("server_error",)),
            ("anthropic", ("error", "api_error")),
            ("gemini", (500, "INTERNAL")),
            ("ollama chat", ("error",)),
            ("cohere /v2/chat", ("id", "message")),
            ("bedrock", ("InternalServerException",)),
        ],
    )
    @each_row("status", ["thrown", "model_error"])
    def test_a_retryable_error_is_a_server_error(
        self, status: Any, name: str, kind: tuple[Any, ...]
    ) -> None:
        head, document = error_response(FailResponse(status, "no luck"), name)

        assert (head.status, should_retry(head)) == (500, None)
        assert ERROR_TYPES[name](head, document) == kind
        assert error_message(name, document) == "no luck"

    @pytest.mark.shows("000-63")
    @each_row(
        ("name", "kind"),
        [
            ("openai-chat", ("invalid_request_error",)),
            ("openai-responses", ("invalid_request_error",)),
            ("anthropic", ("error", "invalid_request_error")),
            ("gemini", (400, "INVALID_ARGUMENT")),
            ("ollama chat", ("error",)),
            ("cohere /v2/chat", ("id", "message")),
            ("bedrock", ("ValidationException",)),
        ],
    )
    def test_a_model_error_that_is_not_retryable_is_a_request_error(
        self, name: str, kind: tuple[Any, ...]
    ) -> None:
        head, document = error_response(
            FailResponse("model_error", "no luck", retryable=False), name
        )

        assert (head.status, should_retry(head)) == (400, "false")
        assert ERROR_TYPES[name](head, document) == kind
        assert error_message(name, document) == "no luck"

    @pytest.mark.shows("000-58", "000-65")
    @for_each_name
    def test_a_thrown_failure_that_is_not_retryable_says_so(self, name: str) -> None:
        head, document = error_response(FailResponse("thrown", retryable=False), name)

        assert (head.status, should_retry(head)) == (500, "false")
        assert error_message(name, document) == "Simulated failure"


@pytest.mark.shows("000-21")
class TestAuthorErrors:
    @each_row(
        ("name", "error"),
        [
            ("openai-chat", {"message": "mine", "type": "busy", "param": None, "code": 7, "x": []}),
            ("anthropic", {"type": "busy", "message": "mine", "code": 7, "x": []}),
            (
                "gemini",
                {"code": 7, "message": "mine", "status": "busy", "type": "busy", "x": []},
            ),
        ],
    )
    def test_fields_go_into_the_error_object(self, name: str, error: dict[str, Any]) -> None:
        author_error: dict[str, Any] = {"message": "mine", "type": "busy", "code": 7, "x": []}

        _, document = error_response(
            FailResponse("thrown", "not this", error_fields=author_error), name
        )

        assert document["error"] == error

    @each_row(("name", "field"), [("ollama chat", "error"), ("bedrock", "message")])
    def test_without_an_error_object_fields_stand_beside_the_message(
        self, name: str, field: str
    ) -> None:
        author_error: dict[str, Any] = {"message": "mine", "reason": "cold"}

        _, document = error_response(FailResponse("rate_limit", error_fields=author_error), name)

        assert document == {field: "mine", "reason": "cold"}

    def test_mistral_errors_have_fields_beside_the_message_too(self) -> None:
        begin, send = failure_actions(
            FailResponse("thrown", error_fields={"reason": "cold"}),
            MANNERS_BY_NAME["openai-chat stream, mistral"],
        )

        assert isinstance(begin, Begin)
        assert isinstance(send, Send)
        document = json.loads(send.data)
        assert (document["object"], document["message"]) == ("error", "Simulated failure")
        assert document["reason"] == "cold"

    def test_a_type_is_sent_where_the_dialect_has_one(self) -> None:
        head, _ = error_response(
            FailResponse("thrown", error_fields={"type": "ThrottlingException"}), "bedrock"
        )

        assert header_value(head.headers, "x-amzn-ErrorType") == "ThrottlingException"

    @for_each_name
    @each_row("status", ["thrown", "model_error", "rate_limit"])
    @each_row("field", ["status", "statusCode"])
    def test_a_number_is_the_http_status(self, field: str, status: Any, name: str) -> None:
        head, document = error_response(FailResponse(status, error_fields={field: 504}), name)

        assert (head.status, header_value(head.headers, "content-type")) == (
            504,
            "application/json",
        )
        error = document.get("error")
        assert field not in document
        assert lenient_json.object_fields(error).get(field) in (None, "DEADLINE_EXCEEDED")

    @each_row("value", ["UNAVAILABLE", 200, 700, True, 503.5, None])
    def test_what_is_no_status_of_an_error_is_a_field_as_any_other(self, value: Any) -> None:
        head, document = error_response(
            FailResponse("thrown", error_fields={"status": value}), "openai-chat"
        )

        assert (head.status, document["error"]["status"]) == (500, value)

    def test_a_status_in_words_stays_beside_one_in_numbers(self) -> None:
        error: dict[str, Any] = {"status": "UNAVAILABLE", "statusCode": 503.0}

        head, document = error_response(FailResponse("thrown", error_fields=error), "gemini")

        assert head.status == 503
        assert document["error"] == {
            "code": 503, "message": "Simulated failure", "status": "UNAVAILABLE",
        }  # fmt: skip


@pytest.mark.shows("000-62")
class TestRateLimits:
    @for_each_name
    @each_row(
        ("ms", "headers"),
        [
            (None, {}),
            (1500, {"retry-after-ms": "1500", "retry-after": "2"}),
            (2000.0, {"retry-after-ms": "2000", "retry-after": "2"}),
            (0.5, {"retry-after-ms": "0.5", "retry-after": "1"}),
            (0, {"retry-after-ms": "0", "retry-after": "0"}),
            (86_400_000, {"retry-after-ms": "86400000", "retry-after": "86400"}),
        ],
    )
    @each_row("retryable", [True, False])
    def test_retry_after_headers_have_the_scripted_value(
        self, name: str, ms: float | None, headers: dict[str, str], retryable: bool
    ) -> None:
        fail = FailResponse("rate_limit", "slow down", retryable=retryable, retry_after_ms=ms)

        head, document = error_response(fail, name)

        assert (head.status, should_retry(head)) == (429, None)
        assert error_message(name, document) == "slow down"
        lowercase = [(key.lower(), value) for key, value in head.headers]
        assert {
            header: value for header, value in lowercase if header.startswith("retry-after")
        } == headers

    @each_row(("ms", "delays"), [(None, []), (1500, ["1.5s"]), (30_000, ["30s"]), (0, ["0s"])])
    def test_gemini_has_the_retry_delay_in_the_body_too(
        self, ms: float | None, delays: list[str]
    ) -> None:
        _, document = error_response(FailResponse("rate_limit", retry_after_ms=ms), "gemini")

        details = document["error"]["details"]
        assert [detail["retryDelay"] for detail in details if "retryDelay" in detail] == delays


class TestBrokenAnswers:
    @pytest.mark.shows("000-60")
    @for_each_manner
    def test_an_invalid_response_is_one_broken_message_that_ends_cleanly(
        self, manner: Manner
    ) -> None:
        begin, send = failure_actions(FailResponse("invalid_response"), manner)

        assert isinstance(begin, Begin)
        assert isinstance(send, Send)
        codec = manner.dialect.codec_name(manner.request, begin.head)
        assert begin.head.status == 200
        assert begin.head.content_length in (None, len(send.data))
        assert framing.split_messages(codec, send.data) == [send.data]
        with pytest.raises(ValueError, match=r"JSON|char"):
            lenient_json.parse_json(json_bytes(codec, send.data))

    @pytest.mark.shows("000-61")
    @for_each_manner
    def test_a_network_error_that_is_not_retryable_comes_within_a_stream(
        self, manner: Manner
    ) -> None:
        begin, send, *rest = failure_actions(
            FailResponse("network_error", "gone", retryable=False), manner
        )

        assert isinstance(begin, Begin)
        assert isinstance(send, Send)
        codec = manner.dialect.codec_name(manner.request, begin.head)
        if codec == "whole":
            assert (begin.head.status, should_retry(begin.head), rest) == (502, "false", [])
            assert b"gone" in send.data
        else:
            assert (begin.head.status, rest) == (200, [Abort("rst")])
            lenient_json.parse_json(json_bytes(codec, send.data))
            assert b"gone" not in send.data

    def test_where_no_answer_could_begin_none_is_broken(self) -> None:
        unknown = Manner("unknown", json_request("/model/my.own-model/invoke"))

        with pytest.raises(NotRepresentable):
            failure_actions(FailResponse("invalid_response"), unknown)


def json_bytes(codec: str, message: bytes) -> bytes:
    """Return the bytes that a client of this codec parses as JSON."""
    match codec:
        case "sse":
            return sse.parse_event(message).data or b""
        case "eventstream":
            frame = eventstream.parse_frame(message)
            assert frame is not None
            return frame.payload
        case "json-array":
            return message.removeprefix(b"[")
        case _:
            return message


@pytest.mark.shows("000-59", "000-61")
@for_each_manner
@each_row(
    ("fail", "burst"),
    [
        (FailResponse("timeout"), (Wait(9000.0), Abort("fin"))),
        (FailResponse("timeout", retryable=False), (Wait(9000.0), Abort("fin"))),
        (FailResponse("network_error"), (Abort("rst"),)),
    ],
    ids=["timeout", "timeout, not again", "network error"],
)
def test_what_sends_nothing_is_the_same_in_every_dialect_at_every_pace(
    manner: Manner, fail: FailResponse, burst: tuple[Action, ...]
) -> None:
    assert failure_actions(fail, manner) == burst


class TestOnTheWire:
    async def test_a_network_error_is_a_reset_before_any_byte(self) -> None:
        async with serve_mode(ScriptedMode(lambda _: FailResponse("network_error"))) as server:
            raw = await send_request(server.url, raw_chat_request())
            [entry] = server.entries()

        assert (raw.status, raw.headers, raw.ending) == (0, [], "rst")
        assert (entry.status, entry.bytes, entry.ending) == (0, 0, "cut")

    async def test_a_network_error_after_the_head_is_a_reset_behind_one_frame(self) -> None:
        fail = FailResponse("network_error", retryable=False)
        async with serve_mode(ScriptedMode(lambda _: fail)) as server:
            raw = await send_request(server.url, raw_chat_request())

        assert (raw.status, raw.ending, len(raw.chunks)) == (200, "rst", 1)
        assert raw.header("content-type") == "text/event-stream; charset=utf-8"

    async def test_a_broken_stream_ends_as_a_whole_one(self) -> None:
        async with serve_mode(ScriptedMode(lambda _: FailResponse("invalid_response"))) as server:
            raw = await send_request(server.url, raw_chat_request())

        assert (raw.status, raw.ending, len(raw.chunks)) == (200, "clean", 1)
        assert raw.body.startswith(b"data: {")
        assert raw.body.endswith(b"\n\n")

    async def test_a_broken_document_is_as_long_as_it_says(self) -> None:
        request = raw_chat_request().replace(b"true", b"null")
        async with serve_mode(ScriptedMode(lambda _: FailResponse("invalid_response"))) as server:
            raw = await send_request(server.url, request)

        assert (raw.status, raw.ending) == (200, "clean")
        assert raw.header("content-length") == str(len(raw.body))
        assert raw.body.startswith(b'{"id":')

    @each_row("pace", [InstantPace(), RecordedPace(100.0)])
    async def test_a_timeout_is_silent_up_to_its_limit_at_any_pace(
        self, pace: InstantPace | RecordedPace
    ) -> None:
        mode = ScriptedMode(lambda _: FailResponse("timeout"), 150.0, pace)
        async with serve_mode(mode) as server:
            started = asyncio.get_running_loop().time()
            raw = await send_request(server.url, raw_chat_request())
            elapsed_s = asyncio.get_running_loop().time() - started
            [entry] = server.entries()

        assert (raw.status, raw.headers, raw.ending) == (0, [], "fin")
        assert elapsed_s >= 0.149
        assert (entry.status, entry.bytes, entry.ending) == (0, 0, "cut")

    async def test_a_client_that_gives_up_on_a_timeout_is_gone_at_once(self) -> None:
        async with serve_mode(ScriptedMode(lambda _: FailResponse("timeout"))) as server:
            async with open_line(server.url) as client:
                await client.send(raw_chat_request().replace(b"\r\n", b"\r\nHost: HOST\r\n", 1))
                await wait_until(lambda: server.server.active_request_count == 1)
            await wait_until(lambda: server.server.active_request_count == 0)
            [entry] = server.entries()

        assert (entry.status, entry.bytes, entry.ending) == (0, 0, "client_gone")
        assert entry.ms < 10_000
        assert server.journal.counts.clients_left == 1

    async def test_the_next_request_on_the_connection_is_answered_after_an_error(self) -> None:
        async with serve_mode(
            ScriptedMode(lambda _: FailResponse("rate_limit", retry_after_ms=20))
        ) as server:
            async with open_line(server.url) as client:
                for _ in range(2):
                    await client.send(raw_chat_request().replace(b"\r\n", b"\r\nHost: HOST\r\n", 1))
                    raw = await client.read_response()
                    assert (raw.status, raw.header("retry-after-ms")) == (429, "20")
