"""A failure is met by a client as its provider's own would be."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from dialect_manners import MANNERS, Manner, asking
from llm_proxy import framing
from llm_proxy.actions import Abort, Action, Begin, Burst, Send, Wait
from llm_proxy.dialects import DialectResponse, lenient_json
from llm_proxy.dialects.decoded_request import DecodedRequest
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import ResponseHead, header_value
from llm_proxy.framing import eventstream, sse
from llm_proxy.pacing import InstantPace, RecordedPace
from llm_proxy.scenario.render.actions import response_actions
from llm_proxy.scenario.render.failures import FailureLimits
from llm_proxy.scenario.scripted_response import FailResponse
from raw_http import ask, line
from scripted_server import Directed, directed
from stored_cassettes import chat
from waiting import until

MANNER: Final = {item.name: item for item in MANNERS}
NAMES: Final = (
    "openai-chat", "openai-responses", "anthropic", "gemini", "ollama chat", "cohere /v2/chat",
    "bedrock",
)  # fmt: skip
"""A plain manner of each dialect: it is asked for a `stream` and a `whole` answer."""
EACH: Final = pytest.mark.parametrize("name", NAMES)
each_manner = pytest.mark.parametrize("manner", MANNERS, ids=lambda it: it.name.replace(" ", "-"))


def failed(fail: FailResponse, manner: Manner = MANNER["openai-chat stream"]) -> Burst:
    asked = DecodedRequest(manner.dialect, manner.request, manner.delivery)
    return response_actions(
        fail, asked, lambda _codec, _message: True, RecordedPace(4.0), FailureLimits(9000.0)
    )


def refused(fail: FailResponse, name: str) -> tuple[ResponseHead, Any]:
    """The head and the document of an error; it is the same for a stream and a whole answer."""
    begin, send = failed(fail, MANNER[f"{name} stream"])
    assert failed(fail, MANNER[f"{name} whole"]) == (begin, send)
    assert isinstance(begin, Begin)
    assert isinstance(send, Send)
    assert (begin.head.framing, begin.head.length) == ("length", len(send.data))
    return begin.head, json.loads(send.data)


def again(head: ResponseHead) -> str | None:
    return header_value(head.headers, "x-should-retry")


def message(name: str, document: Any) -> str:
    """The text of an error as its dialect has it."""
    response = DialectResponse(
        ResponseHead(500, "", (), "length"), "whole", (json.dumps(document).encode(),)
    )
    [turn] = MANNER[f"{name} whole"].dialect.decode(response)
    assert turn.failure is not None
    return turn.failure.message


TYPES: Final[dict[str, Callable[[ResponseHead, Any], tuple[Any, ...]]]] = {
    "openai-chat": lambda _, it: (it["error"]["type"],),
    "openai-responses": lambda _, it: (it["error"]["type"],),
    "anthropic": lambda _, it: (it["type"], it["error"]["type"]),
    "gemini": lambda _, it: (it["error"]["code"], it["error"]["status"]),
    "ollama chat": lambda _, it: tuple(it),
    "cohere /v2/chat": lambda _, it: tuple(it),
    "bedrock": lambda head, _: (header_value(head.headers, "x-amzn-ErrorType"),),
}
"""What tells a dialect's kinds of errors apart."""


class TestErrors:
    @pytest.mark.shows("000-58", "000-63")
    @pytest.mark.parametrize(
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
    @pytest.mark.parametrize("status", ["thrown", "model_error"])
    def test_what_may_be_asked_again_is_a_fault_of_the_server(
        self, status: Any, name: str, kind: tuple[Any, ...]
    ) -> None:
        head, document = refused(FailResponse(status, "no luck"), name)

        assert (head.status, again(head)) == (500, None)
        assert TYPES[name](head, document) == kind
        assert message(name, document) == "no luck"

    @pytest.mark.shows("000-63")
    @pytest.mark.parametrize(
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
    def test_a_model_error_that_may_not_be_asked_again_is_one_of_the_request(
        self, name: str, kind: tuple[Any, ...]
    ) -> None:
        head, document = refused(FailResponse("model_error", "no luck", retryable=False), name)

        assert (head.status, again(head)) == (400, "false")
        assert TYPES[name](head, document) == kind
        assert message(name, document) == "no luck"

    @pytest.mark.shows("000-58", "000-65")
    @EACH
    def test_what_is_thrown_and_may_not_be_asked_again_says_so(self, name: str) -> None:
        head, document = refused(FailResponse("thrown", retryable=False), name)

        assert (head.status, again(head)) == (500, "false")
        assert message(name, document) == "Simulated failure"


@pytest.mark.shows("000-21")
class TestErrorsOfTheAuthors:
    @pytest.mark.parametrize(
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
        given: dict[str, Any] = {"message": "mine", "type": "busy", "code": 7, "x": []}

        _, document = refused(FailResponse("thrown", "not this", error=given), name)

        assert document["error"] == error

    @pytest.mark.parametrize(("name", "word"), [("ollama chat", "error"), ("bedrock", "message")])
    def test_where_there_is_no_such_object_they_stand_beside_the_message(
        self, name: str, word: str
    ) -> None:
        given: dict[str, Any] = {"message": "mine", "reason": "cold"}

        _, document = refused(FailResponse("rate_limit", error=given), name)

        assert document == {word: "mine", "reason": "cold"}

    def test_a_member_of_the_family_without_such_an_object_has_them_there_too(self) -> None:
        begin, send = failed(
            FailResponse("thrown", error={"reason": "cold"}), MANNER["openai-chat stream, mistral"]
        )

        assert isinstance(begin, Begin)
        assert isinstance(send, Send)
        said = json.loads(send.data)
        assert (said["object"], said["message"]) == ("error", "Simulated failure")
        assert said["reason"] == "cold"

    def test_a_type_is_told_where_the_dialect_tells_it(self) -> None:
        head, _ = refused(FailResponse("thrown", error={"type": "ThrottlingException"}), "bedrock")

        assert header_value(head.headers, "x-amzn-ErrorType") == "ThrottlingException"

    @EACH
    @pytest.mark.parametrize("status", ["thrown", "model_error", "rate_limit"])
    @pytest.mark.parametrize("field", ["status", "statusCode"])
    def test_a_number_is_the_http_status(self, field: str, status: Any, name: str) -> None:
        head, document = refused(FailResponse(status, error={field: 504}), name)

        assert (head.status, header_value(head.headers, "content-type")) == (
            504,
            "application/json",
        )
        about = document.get("error")
        assert field not in document
        assert lenient_json.object_fields(about).get(field) in (None, "DEADLINE_EXCEEDED")

    @pytest.mark.parametrize("value", ["UNAVAILABLE", 200, 700, True, 503.5, None])
    def test_what_is_no_status_of_an_error_is_a_field_as_any_other(self, value: Any) -> None:
        head, document = refused(FailResponse("thrown", error={"status": value}), "openai-chat")

        assert (head.status, document["error"]["status"]) == (500, value)

    def test_a_status_in_words_stays_beside_one_in_numbers(self) -> None:
        error: dict[str, Any] = {"status": "UNAVAILABLE", "statusCode": 503.0}

        head, document = refused(FailResponse("thrown", error=error), "gemini")

        assert head.status == 503
        assert document["error"] == {
            "code": 503, "message": "Simulated failure", "status": "UNAVAILABLE",
        }  # fmt: skip


@pytest.mark.shows("000-62")
class TestRateLimits:
    @EACH
    @pytest.mark.parametrize(
        ("ms", "told"),
        [
            (None, {}),
            (1500, {"retry-after-ms": "1500", "retry-after": "2"}),
            (2000.0, {"retry-after-ms": "2000", "retry-after": "2"}),
            (0.5, {"retry-after-ms": "0.5", "retry-after": "1"}),
            (0, {"retry-after-ms": "0", "retry-after": "0"}),
            (86_400_000, {"retry-after-ms": "86400000", "retry-after": "86400"}),
        ],
    )
    @pytest.mark.parametrize("retryable", [True, False])
    def test_the_wait_is_told_as_it_was_written(
        self, name: str, ms: float | None, told: dict[str, str], retryable: bool
    ) -> None:
        fail = FailResponse("rate_limit", "slow down", retryable=retryable, retry_after_ms=ms)

        head, document = refused(fail, name)

        assert (head.status, again(head)) == (429, None)
        assert message(name, document) == "slow down"
        lower = [(key.lower(), value) for key, value in head.headers]
        assert {it: value for it, value in lower if it.startswith("retry-after")} == told

    @pytest.mark.parametrize(
        ("ms", "delays"), [(None, []), (1500, ["1.5s"]), (30_000, ["30s"]), (0, ["0s"])]
    )
    def test_gemini_tells_it_in_the_body_too(self, ms: float | None, delays: list[str]) -> None:
        _, document = refused(FailResponse("rate_limit", retry_after_ms=ms), "gemini")

        details = document["error"]["details"]
        assert [detail["retryDelay"] for detail in details if "retryDelay" in detail] == delays


class TestBrokenAnswers:
    @pytest.mark.shows("000-60")
    @each_manner
    def test_an_invalid_response_is_one_broken_message_that_ends_cleanly(
        self, manner: Manner
    ) -> None:
        begin, send = failed(FailResponse("invalid_response"), manner)

        assert isinstance(begin, Begin)
        assert isinstance(send, Send)
        codec = manner.dialect.codec(manner.request, begin.head)
        assert begin.head.status == 200
        assert begin.head.length in (None, len(send.data))
        assert framing.split_messages(codec, send.data) == [send.data]
        with pytest.raises(ValueError, match=r"JSON|char"):
            lenient_json.parse_json(content(codec, send.data))

    @pytest.mark.shows("000-61")
    @each_manner
    def test_a_network_error_that_is_not_asked_again_comes_amid_a_stream(
        self, manner: Manner
    ) -> None:
        begin, send, *rest = failed(FailResponse("network_error", "gone", retryable=False), manner)

        assert isinstance(begin, Begin)
        assert isinstance(send, Send)
        codec = manner.dialect.codec(manner.request, begin.head)
        if codec == "whole":
            assert (begin.head.status, again(begin.head), rest) == (502, "false", [])
            assert b"gone" in send.data
        else:
            assert (begin.head.status, rest) == (200, [Abort("rst")])
            lenient_json.parse_json(content(codec, send.data))
            assert b"gone" not in send.data

    def test_where_no_answer_could_begin_none_is_broken(self) -> None:
        unknown = Manner("unknown", asking("/model/my.own-model/invoke"))

        with pytest.raises(NotRepresentable):
            failed(FailResponse("invalid_response"), unknown)


def content(codec: str, message: bytes) -> bytes:
    """What a client of this codec takes for JSON."""
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
@each_manner
@pytest.mark.parametrize(
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
    assert failed(fail, manner) == burst


class TestOnTheWire:
    async def test_a_network_error_is_a_reset_before_any_byte(self) -> None:
        async with directed(Directed(lambda _: FailResponse("network_error"))) as stage:
            raw = await ask(stage.url, chat())
            [entry] = stage.entries()

        assert (raw.status, raw.headers, raw.how) == (0, [], "rst")
        assert (entry.status, entry.bytes, entry.ending) == (0, 0, "cut")

    async def test_a_network_error_after_the_head_is_a_reset_behind_one_frame(self) -> None:
        fail = FailResponse("network_error", retryable=False)
        async with directed(Directed(lambda _: fail)) as stage:
            raw = await ask(stage.url, chat())

        assert (raw.status, raw.how, len(raw.chunks)) == (200, "rst", 1)
        assert raw.header("content-type") == "text/event-stream; charset=utf-8"

    async def test_a_broken_stream_ends_as_a_whole_one(self) -> None:
        async with directed(Directed(lambda _: FailResponse("invalid_response"))) as stage:
            raw = await ask(stage.url, chat())

        assert (raw.status, raw.how, len(raw.chunks)) == (200, "clean", 1)
        assert raw.body.startswith(b"data: {")
        assert raw.body.endswith(b"\n\n")

    async def test_a_broken_document_is_as_long_as_it_says(self) -> None:
        request = chat().replace(b"true", b"null")
        async with directed(Directed(lambda _: FailResponse("invalid_response"))) as stage:
            raw = await ask(stage.url, request)

        assert (raw.status, raw.how) == (200, "clean")
        assert raw.header("content-length") == str(len(raw.body))
        assert raw.body.startswith(b'{"id":')

    @pytest.mark.parametrize("pace", [InstantPace(), RecordedPace(100.0)])
    async def test_a_timeout_is_silent_up_to_its_limit_at_any_pace(
        self, pace: InstantPace | RecordedPace
    ) -> None:
        mode = Directed(lambda _: FailResponse("timeout"), FailureLimits(150.0), pace)
        async with directed(mode) as stage:
            begun = asyncio.get_running_loop().time()
            raw = await ask(stage.url, chat())
            took = asyncio.get_running_loop().time() - begun
            [entry] = stage.entries()

        assert (raw.status, raw.headers, raw.how) == (0, [], "fin")
        assert took >= 0.149
        assert (entry.status, entry.bytes, entry.ending) == (0, 0, "cut")

    async def test_a_client_that_gives_up_on_a_timeout_is_gone_at_once(self) -> None:
        async with directed(Directed(lambda _: FailResponse("timeout"))) as stage:
            async with line(stage.url) as client:
                await client.send(chat().replace(b"\r\n", b"\r\nHost: HOST\r\n", 1))
                await until(lambda: stage.server.active_count == 1)
            await until(lambda: stage.server.active_count == 0)
            [entry] = stage.entries()

        assert (entry.status, entry.bytes, entry.ending) == (0, 0, "client_gone")
        assert entry.ms < 10_000
        assert stage.journal.counts.left == 1

    async def test_the_next_request_on_the_connection_is_answered_after_an_error(self) -> None:
        async with directed(
            Directed(lambda _: FailResponse("rate_limit", retry_after_ms=20))
        ) as stage:
            async with line(stage.url) as client:
                for _ in range(2):
                    await client.send(chat().replace(b"\r\n", b"\r\nHost: HOST\r\n", 1))
                    raw = await client.answer()
                    assert (raw.status, raw.header("retry-after-ms")) == (429, "20")
