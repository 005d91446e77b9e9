"""`replay`: recorded takes are served in order, and no network connection is made."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from asyncio.selector_events import (  # type: ignore[attr-defined] # the class that writes to a socket
    _SelectorSocketTransport,
)
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from operator import le
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from case_tables import each_row
from cli_process import environment
from in_process_proxy import proxy
from llm_proxy.exchange import Ending, ResponseHead
from llm_proxy.pacing import InstantPace, Pace, RecordedPace
from llm_proxy.take_numbers import AfterLast
from raw_http import RawResponse, build_http_request, open_line, send_request
from stored_cassettes import (
    DONE_EVENT,
    SSE_HEAD,
    StoredResponse,
    chat_event,
    key_of_request,
    raw_chat_request,
    response_bodies,
    text_response,
    write_cassettes,
)
from thoroughness import quick_or_thorough
from waiting import wait_for_first_line, wait_until

INSTANT = InstantPace()
REPLAYS = quick_or_thorough(50, 200)


async def _response_bodies(url: str, requests: Sequence[bytes]) -> list[bytes]:
    """Send these requests one after another; return the response bodies."""
    return [(await send_request(url, request)).body for request in requests]


def _message(raw: RawResponse) -> str:
    return str(json.loads(raw.body)["error"]["message"])


class TestTakes:
    async def test_twenty_identical_requests_get_their_twenty_answers_in_order(
        self, tmp_path: Path
    ) -> None:
        answers = [text_response(f"answer {number}") for number in range(20)]
        write_cassettes(tmp_path, raw_chat_request(), *answers)
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            assert await _response_bodies(
                replaying.url, [raw_chat_request()] * 20
            ) == response_bodies(answers)

    async def test_identical_requests_in_flight_at_once_get_distinct_takes(
        self, tmp_path: Path
    ) -> None:
        answers = [text_response(f"answer {number}", gap=2) for number in range(20)]
        write_cassettes(tmp_path, raw_chat_request(), *answers)
        async with proxy("replay", tmp_path) as replaying:
            responses = await asyncio.gather(
                *(send_request(replaying.url, raw_chat_request()) for _ in answers)
            )
        assert sorted(raw.body for raw in responses) == sorted(response_bodies(answers))

    async def test_takes_are_played_by_number_and_gaps_do_not_matter(self, tmp_path: Path) -> None:
        answers = [text_response(text) for text in ("second", "tenth", "eleventh")]
        for number, answer in zip((2, 10, 11), answers, strict=True):
            write_cassettes(tmp_path, raw_chat_request(), answer, first_take=number)
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            assert await _response_bodies(
                replaying.url, [raw_chat_request()] * 3
            ) == response_bodies(answers)

    async def test_each_key_counts_on_its_own(self, tmp_path: Path) -> None:
        write_cassettes(tmp_path, raw_chat_request("a"), text_response("a1"), text_response("a2"))
        write_cassettes(tmp_path, raw_chat_request("b"), text_response("b1"), text_response("b2"))
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            received = await _response_bodies(
                replaying.url,
                [
                    raw_chat_request("a"),
                    raw_chat_request("b"),
                    raw_chat_request("a"),
                    raw_chat_request("b"),
                ],
            )
        assert received == response_bodies(
            [text_response("a1"), text_response("b1"), text_response("a2"), text_response("b2")]
        )

    @pytest.mark.parametrize(
        ("after_last", "played"),
        [("repeat", ["one", "two", "two", "two"]), ("cycle", ["one", "two", "one", "two"])],
    )
    async def test_after_the_last_take_the_operator_decides(
        self, tmp_path: Path, after_last: AfterLast, played: list[str]
    ) -> None:
        write_cassettes(tmp_path, raw_chat_request(), text_response("one"), text_response("two"))
        settings: dict[str, Any] = {"pace": INSTANT, "after_last": after_last}
        async with proxy("replay", tmp_path, **settings) as replaying:
            received = await _response_bodies(replaying.url, [raw_chat_request()] * 4)
        assert received == response_bodies([text_response(text) for text in played])

    async def test_after_last_fail_is_a_miss_that_says_how_many_there_were(
        self, tmp_path: Path
    ) -> None:
        write_cassettes(tmp_path, raw_chat_request(), text_response("one"), text_response("two"))
        async with proxy("replay", tmp_path, pace=INSTANT, after_last="fail") as replaying:
            responses = [await send_request(replaying.url, raw_chat_request()) for _ in range(3)]
            misses = list(replaying.journal.misses)
        assert [raw.status for raw in responses] == [200, 200, 424]
        assert "request 3" in _message(responses[2])
        assert "2 takes" in _message(responses[2])
        assert len(misses) == 1


def _by_header(session: str) -> bytes:
    return raw_chat_request("hi", f"x-llm-proxy-session: {session}")


def _by_path(session: str) -> bytes:
    return raw_chat_request(path=f"/@{session}/v1/chat/completions")


class TestSessions:
    @pytest.mark.parametrize("make_request", [_by_header, _by_path], ids=["header", "path"])
    async def test_a_session_has_a_counter_of_its_own(
        self, tmp_path: Path, make_request: Callable[[str], bytes]
    ) -> None:
        write_cassettes(tmp_path, raw_chat_request(), text_response("one"), text_response("two"))
        order = [
            make_request("a"),
            make_request("b"),
            raw_chat_request(),
            make_request("a"),
            make_request("b"),
            raw_chat_request(),
        ]
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            received = await _response_bodies(replaying.url, order)
        assert received == response_bodies([text_response("one")] * 3 + [text_response("two")] * 3)

    @pytest.mark.parametrize("make_request", [_by_header, _by_path], ids=["header", "path"])
    async def test_a_session_plays_its_own_takes_and_not_the_default_sessions(
        self, tmp_path: Path, make_request: Callable[[str], bytes]
    ) -> None:
        write_cassettes(tmp_path, raw_chat_request(), text_response("default"))
        write_cassettes(
            tmp_path, make_request("a"), text_response("own one"), text_response("own two")
        )
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            received = await _response_bodies(
                replaying.url,
                [make_request("a"), make_request("a"), make_request("b"), raw_chat_request()],
            )
        expected = [
            text_response("own one"),
            text_response("own two"),
            text_response("default"),
            text_response("default"),
        ]
        assert received == response_bodies(expected)

    async def test_the_path_names_the_session_where_the_header_names_another(
        self, tmp_path: Path
    ) -> None:
        write_cassettes(tmp_path, _by_path("a"), text_response("by path"))
        write_cassettes(tmp_path, _by_path("b"), text_response("by header"))
        both = raw_chat_request("hi", "x-llm-proxy-session: b", path="/@a/v1/chat/completions")
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            assert await _response_bodies(replaying.url, [both]) == response_bodies(
                [text_response("by path")]
            )

    async def test_a_session_never_plays_another_named_sessions_takes(self, tmp_path: Path) -> None:
        write_cassettes(tmp_path, _by_path("a"), text_response("only for a"))
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            raw = await send_request(replaying.url, _by_path("b"))
        assert raw.status == 424
        assert (
            "belongs to session a, not to session b; record the request again in session b"
            in _message(raw)
        )

    @each_row("name", ["a/b", "..", ".hidden", "%2e%2e", "a%20b", "x" * 101, "é"])
    async def test_what_is_no_session_name_is_refused(self, tmp_path: Path, name: str) -> None:
        request = raw_chat_request("hi", f"x-llm-proxy-session: {name}")
        async with proxy("replay", tmp_path) as replaying:
            raw = await send_request(replaying.url, request)
        assert raw.status == 400
        assert "is not a valid session name" in _message(raw)

    async def test_of_a_long_session_name_a_hundred_characters_are_shown(
        self, tmp_path: Path
    ) -> None:
        async with proxy("replay", tmp_path) as replaying:
            raw = await send_request(
                replaying.url, raw_chat_request("hi", f"x-llm-proxy-session: {'x' * 5000}")
            )
        assert f"'{'x' * 99}…' is not a valid session name" in _message(raw)


# Each recorded ending, with the ending of the client's connection in replay.
ENDINGS = [
    (Ending.FIN, "chunked", "fin"),
    (Ending.RST, "chunked", "rst"),
    (Ending.STALLED, "chunked", "rst"),
    (Ending.MALFORMED, "chunked", "rst"),
    (Ending.CLIENT_GONE, "chunked", "fin"),
    (Ending.RECORDER_ERROR, "chunked", "fin"),
    (Ending.KILLED, "chunked", "fin"),
    (Ending.FIN, "length", "fin"),
    (Ending.RST, "length", "rst"),
    (Ending.STALLED, "close", "rst"),
    (Ending.RST, "close", "rst"),
]


def _broken_answer(ending: Ending, framing: str, *, end_at: float | None = None) -> StoredResponse:
    head = ResponseHead(200, "OK", SSE_HEAD.headers, framing, 5000 if framing == "length" else None)  # type: ignore[arg-type] # a framing name from the table
    return StoredResponse(
        ((1, chat_event("half an")), (2, chat_event(" answer"))), ending, end_at, head
    )


class TestPartialTakes:
    def test_every_ending_that_is_not_clean_is_in_the_table(self) -> None:
        assert {ending for ending, *_ in ENDINGS} == set(Ending) - {Ending.CLEAN}

    @each_row(("ending", "framing", "client_ending"), ENDINGS)
    async def test_a_partial_take_ends_as_it_ended(
        self, tmp_path: Path, ending: Ending, framing: str, client_ending: str
    ) -> None:
        answer = _broken_answer(ending, framing)
        write_cassettes(tmp_path, raw_chat_request(), answer)
        async with proxy("replay", tmp_path, allow_partial=True) as replaying:
            raw = await send_request(replaying.url, raw_chat_request())
        assert (raw.status, raw.ending) == (200, client_ending)
        assert raw.body == response_bodies([answer])[0]

    async def test_a_stall_lasts_as_long_as_it_did_before_the_reset(self, tmp_path: Path) -> None:
        write_cassettes(
            tmp_path, raw_chat_request(), _broken_answer(Ending.STALLED, "chunked", end_at=150)
        )
        async with proxy("replay", tmp_path, allow_partial=True) as replaying:
            async with open_line(replaying.url) as client:
                started = asyncio.get_running_loop().time()
                await client.send(raw_chat_request().replace(b"\r\n", b"\r\nHost: HOST\r\n", 1))
                raw = await client.read_response()
                elapsed_s = asyncio.get_running_loop().time() - started
        assert raw.ending == "rst"
        assert elapsed_s > 0.145

    async def test_a_partial_take_is_left_out_unless_it_is_asked_for(self, tmp_path: Path) -> None:
        write_cassettes(
            tmp_path,
            raw_chat_request(),
            _broken_answer(Ending.FIN, "chunked"),
            text_response("the whole answer"),
        )
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            assert await _response_bodies(replaying.url, [raw_chat_request()]) == response_bodies(
                [text_response("the whole answer")]
            )

    async def test_only_partial_takes_are_a_miss_that_says_so(self, tmp_path: Path) -> None:
        [path] = write_cassettes(
            tmp_path, raw_chat_request(), _broken_answer(Ending.FIN, "chunked")
        )
        async with proxy("replay", tmp_path) as replaying:
            raw = await send_request(replaying.url, raw_chat_request())
        assert raw.status == 424
        assert f"{path} matches, but is incomplete (the upstream" in _message(raw)
        assert (
            "record the request again with llm-proxy record, or replay with --allow-partial"
            in _message(raw)
        )

    async def test_a_file_under_another_keys_name_is_a_miss_that_says_its_right_one(
        self, tmp_path: Path
    ) -> None:
        [path] = write_cassettes(tmp_path, raw_chat_request(), text_response("x"))
        path.rename(path.with_name("aaaaaaaaaaaaaaaa-1.jsonl"))
        async with proxy("replay", tmp_path) as replaying:
            raw = await send_request(replaying.url, raw_chat_request())
        assert raw.status == 424
        assert f"rename the file to {path.stem.partition('-')[0]}-<take>.jsonl" in _message(raw)

    async def test_an_edited_cassette_is_refused_with_what_to_do(self, tmp_path: Path) -> None:
        [path] = write_cassettes(tmp_path, raw_chat_request(), text_response("x"))
        path.write_text(path.read_text().replace('"content":"x"', '"content":"y"'))
        async with proxy("replay", tmp_path) as replaying:
            raw = await send_request(replaying.url, raw_chat_request())
        assert (raw.status, raw.header("x-llm-proxy-error")) == (424, "cassette_unusable")
        assert "delete the file, or record the request again with llm-proxy record" in _message(raw)

    async def test_a_clean_end_without_the_terminator_is_partial(self, tmp_path: Path) -> None:
        truncated = StoredResponse(((1, chat_event("looks whole")),))
        write_cassettes(tmp_path, raw_chat_request(), truncated)
        async with proxy("replay", tmp_path) as replaying:
            refused = await send_request(replaying.url, raw_chat_request())
        async with proxy("replay", tmp_path, allow_partial=True) as replaying:
            played = await send_request(replaying.url, raw_chat_request())
        assert refused.status == 424
        assert (played.body, played.ending) == (response_bodies([truncated])[0], "clean")


class _ReadRecorder(asyncio.Protocol):
    """Records each read of the socket."""

    def __init__(self, request: bytes, closed: asyncio.Future[None]) -> None:
        self.request = request
        self.closed = closed
        self.reads: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.reads.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set_result(None)


async def _record_reads(url: str, request: bytes) -> list[bytes]:
    loop = asyncio.get_running_loop()
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    closed = loop.create_future()
    lines = f"\r\nHost: {parts.netloc}\r\nConnection: close\r\n".encode()
    _, protocol = await loop.create_connection(
        lambda: _ReadRecorder(request.replace(b"\r\n", lines, 1), closed),
        parts.hostname,
        parts.port,
    )
    async with asyncio.timeout(20):
        await closed
    return protocol.reads


HUNDRED_EVENTS = StoredResponse(
    (*((10.0 + 8 * number, chat_event(f"{number}")) for number in range(100)), (810.0, DONE_EVENT)),
    head_at=5.0,
)


class TestPace:
    async def test_instant_is_one_write(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        writes: list[bytes] = []
        write = _SelectorSocketTransport.write

        def spy_write(transport: _SelectorSocketTransport, data: bytes) -> None:
            writes.append(bytes(data))
            write(transport, data)

        monkeypatch.setattr(_SelectorSocketTransport, "write", spy_write)
        write_cassettes(tmp_path, raw_chat_request(), StoredResponse(HUNDRED_EVENTS.reads))
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            await _record_reads(replaying.url, raw_chat_request())
        [request, response] = writes
        assert request.startswith(b"POST ")
        assert response.startswith(b"HTTP/1.1 200 ")
        assert response.count(b"\r\ndata: {") == 100
        assert response.endswith(b"\r\n0\r\n\r\n")

    @pytest.mark.parametrize(
        ("pace", "time_factor"),
        [(RecordedPace(), 1.0), (RecordedPace(4.0), 0.25), (RecordedPace(0.5), 2.0)],
        ids=["recorded", "4x", "0.5x"],
    )
    async def test_every_read_goes_out_at_its_time(
        self, tmp_path: Path, pace: Pace, time_factor: float
    ) -> None:
        offsets = [20.0, 60.0, 61.0, 200.0, 400.0]
        pieces = [*map(chat_event, "abcd"), DONE_EVENT]
        write_cassettes(
            tmp_path,
            raw_chat_request(),
            StoredResponse(tuple(zip(offsets, pieces, strict=True)), head_at=10.0),
        )
        async with proxy("replay", tmp_path, pace=pace) as replaying:
            raw = await send_request(replaying.url, raw_chat_request())
        late = [at - due * time_factor for at, due in zip(raw.times_ms, offsets, strict=True)]
        assert raw.chunks == pieces
        assert min(late) > -0.5
        assert sorted(late)[2] < 25  # the median: a busy machine may be late once
        assert raw.head_ms > 10 * time_factor - 0.5

    async def test_a_retry_after_is_scaled_with_the_pace(self, tmp_path: Path) -> None:
        headers = (("Content-Type", "application/json"), ("Retry-After", "20"))
        head = ResponseHead(429, "Too Many Requests", headers, "length")
        write_cassettes(
            tmp_path,
            raw_chat_request(),
            StoredResponse(((1, b'{"error":{"message":"slow down"}}'),), head=head),
        )
        async with proxy("replay", tmp_path, pace=RecordedPace(4.0)) as replaying:
            raw = await send_request(replaying.url, raw_chat_request())
        assert (raw.status, raw.header("retry-after")) == (429, "5")


async def test_many_replays_at_once_are_all_right_and_leave_nothing_behind(
    tmp_path: Path,
) -> None:
    write_cassettes(tmp_path, raw_chat_request(), HUNDRED_EVENTS)
    [expected] = response_bodies([HUNDRED_EVENTS])
    async with proxy("replay", tmp_path) as replaying:
        before = _open_resources()
        responses = await asyncio.gather(
            *(send_request(replaying.url, raw_chat_request()) for _ in range(REPLAYS))
        )
        assert {(raw.body, raw.ending, len(raw.chunks)) for raw in responses} == {
            (expected, "clean", 101)
        }
        await wait_until(lambda: all(map(le, _open_resources(), before)))
        assert replaying.active_stream_count() == 0


def _open_resources() -> tuple[int, int]:
    """Return the number of tasks and of open files of this process."""
    return len(asyncio.all_tasks()), len(list(Path("/proc/self/fd").iterdir()))


class TestMisses:
    async def test_a_miss_is_not_retried_and_says_what_differs(self, tmp_path: Path) -> None:
        [path] = write_cassettes(tmp_path, raw_chat_request("what is recorded"), text_response("x"))
        async with proxy("replay", tmp_path) as replaying:
            raw = await send_request(replaying.url, raw_chat_request("what is asked"))
            misses = list(replaying.journal.misses)
        assert raw.status == 424
        assert raw.header("x-should-retry") == "false"
        assert raw.header("x-llm-proxy-error") == "cassette_not_found"
        assert json.loads(raw.body)["error"]["type"] == "cassette_not_found"
        message = _message(raw)
        assert message.startswith("no cassette matches POST /v1/chat/completions (m); nearest: ")
        assert str(path) in message
        assert 'content: request has "what is asked", cassette has "what is recorded"' in message
        assert message.endswith("; record the request with llm-proxy record, or change the request")
        assert len(misses) == 1
        assert key_of_request(raw_chat_request("what is asked"))[:16] in misses[0].text

    async def test_an_empty_library_is_named(self, tmp_path: Path) -> None:
        async with proxy("replay", tmp_path) as replaying:
            raw = await send_request(replaying.url, raw_chat_request())
        assert f"{tmp_path / 'cassettes'} is empty; record the request with" in _message(raw)

    @each_row(
        ("path", "shape"),
        [
            ("/v1/chat/completions", ["error", "message"]),
            ("/api/chat", ["error"]),
            ("/unheard/of", ["error", "message"]),
        ],
    )
    async def test_a_miss_has_the_shape_of_the_dialect(
        self, tmp_path: Path, path: str, shape: list[str]
    ) -> None:
        async with proxy("replay", tmp_path) as replaying:
            raw = await send_request(replaying.url, raw_chat_request(path=path))
        value = json.loads(raw.body)
        for name in shape:
            value = value[name]
        assert f"no cassette matches POST {path}" in value


def _tear(path: Path) -> int:
    """Truncate a cassette in its fourth line; return the line number that the error names."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + lines[3][:10])
    return 4


def _edit(path: Path) -> int:
    content = path.read_bytes()
    path.write_bytes(content.replace(b"the truth", b"a fairy tale"[: len(b"the truth")]))
    return content.count(b"\n")


def _set_newer_format(path: Path) -> int:
    path.write_bytes(path.read_bytes().replace(b'{"cassette":1', b'{"cassette":2', 1))
    return 1


def _forge_header(path: Path) -> int:
    forged = rb'[["Content-Type","x\r\nSet-Cookie: a=b\r\n\r\nHTTP/1.1 200 OK"]]'
    path.write_bytes(path.read_bytes().replace(b'[["Content-Type","text/event-stream"]]', forged))
    return 3


def _forge_framing_header(path: Path) -> int:
    forged = rb'[["Transfer-Encoding","chunked"]]'
    path.write_bytes(path.read_bytes().replace(b'[["Content-Type","text/event-stream"]]', forged))
    return 3


class TestCassettesThatCannotBeTrusted:
    @pytest.mark.parametrize(
        ("damage", "reason"),
        [
            (_tear, "the file is truncated"),
            (_edit, "the file was edited or damaged"),
            (_set_newer_format, "upgrade llm-proxy"),
            (_forge_header, "headers"),
            (_forge_framing_header, "the header 'Transfer-Encoding' is not allowed in a cassette"),
        ],
        ids=["torn", "edited", "newer format", "forged header", "framing header"],
    )
    async def test_it_is_refused_by_file_and_line_and_nothing_of_it_is_served(
        self, tmp_path: Path, damage: Callable[[Path], int], reason: str
    ) -> None:
        [path] = write_cassettes(tmp_path, raw_chat_request(), text_response("the truth"))
        line_number = damage(path)
        async with proxy("replay", tmp_path) as replaying:
            raws = [await send_request(replaying.url, raw_chat_request()) for _ in range(2)]
        for raw in raws:
            assert raw.status == 424
            assert raw.header("x-llm-proxy-error") == "cassette_unusable"
            assert raw.header("x-should-retry") == "false"
            assert raw.header("set-cookie") is None
            assert _message(raw).startswith(f"{path}:{line_number}: ")
            assert reason in _message(raw)

    async def test_a_bad_take_spoils_its_own_key_only(self, tmp_path: Path) -> None:
        [bad] = write_cassettes(tmp_path, raw_chat_request("a"), text_response("a"))
        write_cassettes(tmp_path, raw_chat_request("b"), text_response("b"))
        _tear(bad)
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            assert await _response_bodies(
                replaying.url, [raw_chat_request("b")]
            ) == response_bodies([text_response("b")])


class TestFilesThatTheirNamesDoNotFind:
    @pytest.mark.parametrize(
        "changed",
        [{"name": "a-name-from-a-person.jsonl"}, {"key_rules": 0}, {"key_rules": 9}],
        ids=["stray name", "older key rules", "newer key rules"],
    )
    async def test_they_are_keyed_anew_from_the_request_that_they_store(
        self, tmp_path: Path, changed: dict[str, Any]
    ) -> None:
        write_cassettes(
            tmp_path, raw_chat_request(), text_response("found all the same"), **changed
        )
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            received = await _response_bodies(replaying.url, [raw_chat_request()])
            miss = await send_request(replaying.url, raw_chat_request("another"))
        assert received == response_bodies([text_response("found all the same")])
        assert miss.status == 424

    async def test_takes_of_other_key_rules_keep_their_order(self, tmp_path: Path) -> None:
        answers = [text_response("one"), text_response("two"), text_response("three")]
        write_cassettes(tmp_path, raw_chat_request(), *answers, key_rules=0)
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            assert await _response_bodies(
                replaying.url, [raw_chat_request()] * 3
            ) == response_bodies(answers)

    async def test_more_than_nine_takes_of_other_key_rules_keep_their_order(
        self, tmp_path: Path
    ) -> None:
        answers = [text_response(f"take {number}") for number in range(1, 13)]
        write_cassettes(tmp_path, raw_chat_request(), *answers, key_rules=0)
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            assert await _response_bodies(
                replaying.url, [raw_chat_request()] * 12
            ) == response_bodies(answers)

    async def test_a_file_under_anothers_name_is_not_played_for_it(self, tmp_path: Path) -> None:
        [path] = write_cassettes(tmp_path, raw_chat_request("a"), text_response("an answer to a"))
        path.rename(path.with_name(f"{key_of_request(raw_chat_request('b'))[:16]}-1.jsonl"))
        async with proxy("replay", tmp_path) as replaying:
            raw = await send_request(replaying.url, raw_chat_request("b"))
        assert raw.status == 424

    async def test_what_is_hidden_or_linked_is_not_looked_at(self, tmp_path: Path) -> None:
        [path] = write_cassettes(tmp_path, raw_chat_request(), text_response("elsewhere"))
        elsewhere = tmp_path / "elsewhere.jsonl"
        path.rename(elsewhere)
        path.symlink_to(elsewhere)
        shutil.copy(elsewhere, path.with_name(f".{path.name}"))
        async with proxy("replay", tmp_path) as replaying:
            raw = await send_request(replaying.url, raw_chat_request())
        assert raw.status == 424


@asynccontextmanager
async def _traced_replay(folder: Path) -> AsyncIterator[tuple[str, Path]]:
    """Run a replay proxy in its own process under strace; yield its URL and the trace file."""
    trace, port_file = folder / "trace", folder / "port"
    arguments = [
        "strace", "-f", "-qq", "-e", "trace=connect,bind", "-o", str(trace),
        sys.executable, "-m", "llm_proxy", "replay", "--port", "0",
        "--port-file", str(port_file), "--cassettes", str(folder / "cassettes"),
    ]  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        *arguments, env=environment(folder), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield f"http://127.0.0.1:{await wait_for_first_line(port_file)}", trace
    finally:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for child in children:
            os.kill(int(child), signal.SIGTERM)
        await process.wait()


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
async def test_replay_makes_no_connection_at_all(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request(), text_response("from the shelf"))
    write_cassettes(tmp_path, raw_chat_request("strange"), text_response("x"), name="stray.jsonl")
    models = build_http_request("/v1/models", b"", method="GET")
    requests = [
        raw_chat_request(),
        raw_chat_request("strange"),
        raw_chat_request("missing"),
        models,
        raw_chat_request(path="/@s/~groq/x"),
    ]
    async with _traced_replay(tmp_path) as (url, trace):
        statuses = [(await send_request(url, request)).status for request in requests]
    assert statuses == [200, 200, 424, 424, 424]
    calls = trace.read_text()
    assert "bind(" in calls  # the trace is of this proxy
    assert "connect(" not in calls
