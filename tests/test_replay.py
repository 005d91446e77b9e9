"""`replay`: what was recorded comes back, take by take, and the network is never touched."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from asyncio.selector_events import (  # type: ignore[attr-defined] # what writes on a socket
    _SelectorSocketTransport,
)
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from operator import le
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from cli_process import environment
from in_process_proxy import proxy
from llm_proxy.exchange import Ending, ResponseHead
from llm_proxy.pacing import InstantPace, Pace, RecordedPace
from llm_proxy.take_numbers import AfterLast
from raw_http import Raw, ask, line, post
from stored_cassettes import DONE, STREAM, Answer, bodies, chat, event, key_of, put, says
from waiting import appeared, until

INSTANT = InstantPace()


async def _bodies(url: str, requests: Sequence[bytes]) -> list[bytes]:
    """What is answered to these requests, asked one after another."""
    return [(await ask(url, request)).body for request in requests]


def _message(raw: Raw) -> str:
    return str(json.loads(raw.body)["error"]["message"])


class TestTakes:
    async def test_twenty_identical_requests_get_their_twenty_answers_in_order(
        self, tmp_path: Path
    ) -> None:
        answers = [says(f"answer {number}") for number in range(20)]
        put(tmp_path, chat(), *answers)
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            assert await _bodies(replaying.url, [chat()] * 20) == bodies(answers)

    async def test_identical_requests_in_flight_at_once_get_distinct_takes(
        self, tmp_path: Path
    ) -> None:
        answers = [says(f"answer {number}", gap=2) for number in range(20)]
        put(tmp_path, chat(), *answers)
        async with proxy("replay", tmp_path) as replaying:
            got = await asyncio.gather(*(ask(replaying.url, chat()) for _ in answers))
        assert sorted(raw.body for raw in got) == sorted(bodies(answers))

    async def test_takes_are_played_by_number_and_gaps_do_not_matter(self, tmp_path: Path) -> None:
        answers = [says(text) for text in ("second", "tenth", "eleventh")]
        for number, answer in zip((2, 10, 11), answers, strict=True):
            put(tmp_path, chat(), answer, first=number)
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            assert await _bodies(replaying.url, [chat()] * 3) == bodies(answers)

    async def test_each_key_counts_on_its_own(self, tmp_path: Path) -> None:
        put(tmp_path, chat("a"), says("a1"), says("a2"))
        put(tmp_path, chat("b"), says("b1"), says("b2"))
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            got = await _bodies(replaying.url, [chat("a"), chat("b"), chat("a"), chat("b")])
        assert got == bodies([says("a1"), says("b1"), says("a2"), says("b2")])

    @pytest.mark.parametrize(
        ("after_last", "played"),
        [("repeat", ["one", "two", "two", "two"]), ("cycle", ["one", "two", "one", "two"])],
    )
    async def test_after_the_last_take_the_operator_decides(
        self, tmp_path: Path, after_last: AfterLast, played: list[str]
    ) -> None:
        put(tmp_path, chat(), says("one"), says("two"))
        settings: dict[str, Any] = {"pace": INSTANT, "after_last": after_last}
        async with proxy("replay", tmp_path, **settings) as replaying:
            got = await _bodies(replaying.url, [chat()] * 4)
        assert got == bodies([says(text) for text in played])

    async def test_after_last_fail_is_a_miss_that_says_how_many_there_were(
        self, tmp_path: Path
    ) -> None:
        put(tmp_path, chat(), says("one"), says("two"))
        async with proxy("replay", tmp_path, pace=INSTANT, after_last="fail") as replaying:
            got = [await ask(replaying.url, chat()) for _ in range(3)]
            misses = list(replaying.journal.misses)
        assert [raw.status for raw in got] == [200, 200, 424]
        assert "request 3" in _message(got[2])
        assert "2 takes" in _message(got[2])
        assert len(misses) == 1


def _by_header(session: str) -> bytes:
    return chat("hi", f"x-llm-proxy-session: {session}")


def _by_path(session: str) -> bytes:
    return chat(path=f"/@{session}/v1/chat/completions")


class TestSessions:
    @pytest.mark.parametrize("scoped", [_by_header, _by_path], ids=["header", "path"])
    async def test_a_session_has_a_counter_of_its_own(
        self, tmp_path: Path, scoped: Callable[[str], bytes]
    ) -> None:
        put(tmp_path, chat(), says("one"), says("two"))
        order = [scoped("a"), scoped("b"), chat(), scoped("a"), scoped("b"), chat()]
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            got = await _bodies(replaying.url, order)
        assert got == bodies([says("one")] * 3 + [says("two")] * 3)

    @pytest.mark.parametrize("scoped", [_by_header, _by_path], ids=["header", "path"])
    async def test_a_session_plays_its_own_takes_and_not_the_default_sessions(
        self, tmp_path: Path, scoped: Callable[[str], bytes]
    ) -> None:
        put(tmp_path, chat(), says("default"))
        put(tmp_path, scoped("a"), says("own one"), says("own two"))
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            got = await _bodies(replaying.url, [scoped("a"), scoped("a"), scoped("b"), chat()])
        expected = [says("own one"), says("own two"), says("default"), says("default")]
        assert got == bodies(expected)

    async def test_the_path_names_the_session_where_the_header_names_another(
        self, tmp_path: Path
    ) -> None:
        put(tmp_path, _by_path("a"), says("by path"))
        put(tmp_path, _by_path("b"), says("by header"))
        both = chat("hi", "x-llm-proxy-session: b", path="/@a/v1/chat/completions")
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            assert await _bodies(replaying.url, [both]) == bodies([says("by path")])

    async def test_a_session_never_plays_another_named_sessions_takes(self, tmp_path: Path) -> None:
        put(tmp_path, _by_path("a"), says("only for a"))
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            raw = await ask(replaying.url, _by_path("b"))
        assert raw.status == 424
        assert "belongs to session a (asked: b)" in _message(raw)

    @pytest.mark.parametrize("name", ["a/b", "..", ".hidden", "%2e%2e", "a%20b", "x" * 101, "é"])
    async def test_what_is_no_session_name_is_refused(self, tmp_path: Path, name: str) -> None:
        request = chat("hi", f"x-llm-proxy-session: {name}")
        async with proxy("replay", tmp_path) as replaying:
            raw = await ask(replaying.url, request)
        assert raw.status == 400
        assert "is no session name" in _message(raw)

    async def test_of_a_long_session_name_a_hundred_characters_are_shown(
        self, tmp_path: Path
    ) -> None:
        async with proxy("replay", tmp_path) as replaying:
            raw = await ask(replaying.url, chat("hi", f"x-llm-proxy-session: {'x' * 5000}"))
        assert f"'{'x' * 99}…' is no session name" in _message(raw)


# How each ending comes out again, as bytes on the client's socket.
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


def _broken(ending: Ending, framing: str, *, end_at: float | None = None) -> Answer:
    head = ResponseHead(200, "OK", STREAM.headers, framing, 5000 if framing == "length" else None)  # type: ignore[arg-type] # a framing's name from the table
    return Answer(((1, event("half an")), (2, event(" answer"))), ending, end_at, head)


class TestPartialTakes:
    def test_every_ending_that_is_not_clean_is_in_the_table(self) -> None:
        assert {ending for ending, *_ in ENDINGS} == set(Ending) - {Ending.CLEAN}

    @pytest.mark.parametrize(("ending", "framing", "how"), ENDINGS)
    async def test_a_partial_take_ends_as_it_ended(
        self, tmp_path: Path, ending: Ending, framing: str, how: str
    ) -> None:
        answer = _broken(ending, framing)
        put(tmp_path, chat(), answer)
        async with proxy("replay", tmp_path, allow_partial=True) as replaying:
            raw = await ask(replaying.url, chat())
        assert (raw.status, raw.how) == (200, how)
        assert raw.body == bodies([answer])[0]

    async def test_a_stall_lasts_as_long_as_it_did_before_the_reset(self, tmp_path: Path) -> None:
        put(tmp_path, chat(), _broken(Ending.STALLED, "chunked", end_at=150))
        async with proxy("replay", tmp_path, allow_partial=True) as replaying:
            async with line(replaying.url) as client:
                begun = asyncio.get_running_loop().time()
                await client.send(chat().replace(b"\r\n", b"\r\nHost: HOST\r\n", 1))
                raw = await client.answer()
                took = asyncio.get_running_loop().time() - begun
        assert raw.how == "rst"
        assert took > 0.145

    async def test_a_partial_take_is_left_out_unless_it_is_asked_for(self, tmp_path: Path) -> None:
        put(tmp_path, chat(), _broken(Ending.FIN, "chunked"), says("the whole answer"))
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            assert await _bodies(replaying.url, [chat()]) == bodies([says("the whole answer")])

    async def test_only_partial_takes_are_a_miss_that_says_so(self, tmp_path: Path) -> None:
        [path] = put(tmp_path, chat(), _broken(Ending.FIN, "chunked"))
        async with proxy("replay", tmp_path) as replaying:
            raw = await ask(replaying.url, chat())
        assert raw.status == 424
        assert f"{path} answers this very request but is not complete (the upstream" in _message(
            raw
        )
        assert "replay it as it is with --allow-partial" in _message(raw)

    async def test_a_file_under_another_keys_name_is_a_miss_that_says_its_right_one(
        self, tmp_path: Path
    ) -> None:
        [path] = put(tmp_path, chat(), says("x"))
        path.rename(path.with_name("aaaaaaaaaaaaaaaa-1.jsonl"))
        async with proxy("replay", tmp_path) as replaying:
            raw = await ask(replaying.url, chat())
        assert raw.status == 424
        assert f"rename the file to {path.stem.partition('-')[0]}-<take>.jsonl" in _message(raw)

    async def test_an_edited_cassette_is_refused_with_what_to_do(self, tmp_path: Path) -> None:
        [path] = put(tmp_path, chat(), says("x"))
        path.write_text(path.read_text().replace('"content":"x"', '"content":"y"'))
        async with proxy("replay", tmp_path) as replaying:
            raw = await ask(replaying.url, chat())
        assert (raw.status, raw.header("x-llm-proxy-error")) == (424, "cassette_unusable")
        assert "Delete it, or record it again with llm-proxy record." in _message(raw)

    async def test_a_clean_end_without_the_terminator_is_partial(self, tmp_path: Path) -> None:
        truncated = Answer(((1, event("looks whole")),))
        put(tmp_path, chat(), truncated)
        async with proxy("replay", tmp_path) as replaying:
            refused = await ask(replaying.url, chat())
        async with proxy("replay", tmp_path, allow_partial=True) as replaying:
            played = await ask(replaying.url, chat())
        assert refused.status == 424
        assert (played.body, played.how) == (bodies([truncated])[0], "clean")


class _Reads(asyncio.Protocol):
    """Counts how often bytes come, as the kernel hands them over."""

    def __init__(self, request: bytes, over: asyncio.Future[None]) -> None:
        self.request = request
        self.over = over
        self.reads: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.reads.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.over.set_result(None)


async def _reads(url: str, request: bytes) -> list[bytes]:
    loop = asyncio.get_running_loop()
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    over = loop.create_future()
    lines = f"\r\nHost: {parts.netloc}\r\nConnection: close\r\n".encode()
    _, protocol = await loop.create_connection(
        lambda: _Reads(request.replace(b"\r\n", lines, 1), over), parts.hostname, parts.port
    )
    async with asyncio.timeout(20):
        await over
    return protocol.reads


HUNDRED = Answer(
    (*((10.0 + 8 * number, event(f"{number}")) for number in range(100)), (810.0, DONE)),
    head_at=5.0,
)


class TestPace:
    async def test_instant_is_one_write(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        writes: list[bytes] = []
        write = _SelectorSocketTransport.write

        def seen(transport: _SelectorSocketTransport, data: bytes) -> None:
            writes.append(bytes(data))
            write(transport, data)

        monkeypatch.setattr(_SelectorSocketTransport, "write", seen)
        put(tmp_path, chat(), Answer(HUNDRED.reads))
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            await _reads(replaying.url, chat())
        [request, response] = writes
        assert request.startswith(b"POST ")
        assert response.startswith(b"HTTP/1.1 200 ")
        assert response.count(b"\r\ndata: {") == 100
        assert response.endswith(b"\r\n0\r\n\r\n")

    @pytest.mark.parametrize(
        ("pace", "spread"),
        [(RecordedPace(), 1.0), (RecordedPace(4.0), 0.25), (RecordedPace(0.5), 2.0)],
        ids=["recorded", "4x", "0.5x"],
    )
    async def test_every_read_goes_out_at_its_time(
        self, tmp_path: Path, pace: Pace, spread: float
    ) -> None:
        offsets = [20.0, 60.0, 61.0, 200.0, 400.0]
        pieces = [*map(event, "abcd"), DONE]
        put(tmp_path, chat(), Answer(tuple(zip(offsets, pieces, strict=True)), head_at=10.0))
        async with proxy("replay", tmp_path, pace=pace) as replaying:
            raw = await ask(replaying.url, chat())
        late = [at - due * spread for at, due in zip(raw.times, offsets, strict=True)]
        assert raw.chunks == pieces
        assert min(late) > -0.5
        assert sorted(late)[2] < 25  # the median: a busy machine may be late once
        assert raw.head_at > 10 * spread - 0.5

    async def test_a_retry_after_is_scaled_with_the_pace(self, tmp_path: Path) -> None:
        headers = (("Content-Type", "application/json"), ("Retry-After", "20"))
        head = ResponseHead(429, "Too Many Requests", headers, "length")
        put(tmp_path, chat(), Answer(((1, b'{"error":{"message":"slow down"}}'),), head=head))
        async with proxy("replay", tmp_path, pace=RecordedPace(4.0)) as replaying:
            raw = await ask(replaying.url, chat())
        assert (raw.status, raw.header("retry-after")) == (429, "5")


async def test_two_hundred_replays_at_once_are_all_right_and_leave_nothing_behind(
    tmp_path: Path,
) -> None:
    put(tmp_path, chat(), HUNDRED)
    [expected] = bodies([HUNDRED])
    async with proxy("replay", tmp_path) as replaying:
        before = _left_open()
        got = await asyncio.gather(*(ask(replaying.url, chat()) for _ in range(200)))
        assert {(raw.body, raw.how, len(raw.chunks)) for raw in got} == {(expected, "clean", 101)}
        await until(lambda: all(map(le, _left_open(), before)))
        assert replaying.active_streams() == 0


def _left_open() -> tuple[int, int]:
    """Tasks and open files of this process."""
    return len(asyncio.all_tasks()), len(list(Path("/proc/self/fd").iterdir()))


class TestMisses:
    async def test_a_miss_is_not_retried_and_says_what_differs(self, tmp_path: Path) -> None:
        [path] = put(tmp_path, chat("what is recorded"), says("x"))
        async with proxy("replay", tmp_path) as replaying:
            raw = await ask(replaying.url, chat("what is asked"))
            misses = list(replaying.journal.misses)
        assert raw.status == 424
        assert raw.header("x-should-retry") == "false"
        assert raw.header("x-llm-proxy-error") == "cassette_not_found"
        assert json.loads(raw.body)["error"]["type"] == "cassette_not_found"
        message = _message(raw)
        assert message.startswith("no cassette for POST /v1/chat/completions (m). Nearest is")
        assert str(path) in message
        assert '$.messages[0].content: "what is asked", cassette has "what is recorded"' in message
        assert "Record it with llm-proxy record" in message
        assert len(misses) == 1
        assert key_of(chat("what is asked"))[:16] in misses[0].text

    async def test_an_empty_library_is_named(self, tmp_path: Path) -> None:
        async with proxy("replay", tmp_path) as replaying:
            raw = await ask(replaying.url, chat())
        assert f"{tmp_path / 'cassettes'} holds none" in _message(raw)

    @pytest.mark.parametrize(
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
            raw = await ask(replaying.url, chat(path=path))
        value = json.loads(raw.body)
        for name in shape:
            value = value[name]
        assert f"no cassette for POST {path}" in value


def _torn(path: Path) -> int:
    """Cut a cassette in its fourth line; gives the line that is to be named."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + lines[3][:10])
    return 4


def _edited(path: Path) -> int:
    content = path.read_bytes()
    path.write_bytes(content.replace(b"the truth", b"a fairy tale"[: len(b"the truth")]))
    return content.count(b"\n")


def _from_the_future(path: Path) -> int:
    path.write_bytes(path.read_bytes().replace(b'{"cassette":1', b'{"cassette":2', 1))
    return 1


def _forging(path: Path) -> int:
    forged = rb'[["Content-Type","x\r\nSet-Cookie: a=b\r\n\r\nHTTP/1.1 200 OK"]]'
    path.write_bytes(path.read_bytes().replace(b'[["Content-Type","text/event-stream"]]', forged))
    return 3


def _framing_itself(path: Path) -> int:
    forged = rb'[["Transfer-Encoding","chunked"]]'
    path.write_bytes(path.read_bytes().replace(b'[["Content-Type","text/event-stream"]]', forged))
    return 3


class TestCassettesThatCannotBeTrusted:
    @pytest.mark.parametrize(
        ("spoil", "why"),
        [
            (_torn, "the file is torn"),
            (_edited, "edited by hand?"),
            (_from_the_future, "upgrade llm-proxy"),
            (_forging, "headers"),
            (_framing_itself, "a stored header may not be 'Transfer-Encoding'"),
        ],
        ids=["torn", "edited", "newer format", "forged header", "framing header"],
    )
    async def test_it_is_refused_by_file_and_line_and_nothing_of_it_is_served(
        self, tmp_path: Path, spoil: Callable[[Path], int], why: str
    ) -> None:
        [path] = put(tmp_path, chat(), says("the truth"))
        number = spoil(path)
        async with proxy("replay", tmp_path) as replaying:
            raws = [await ask(replaying.url, chat()) for _ in range(2)]
        for raw in raws:
            assert raw.status == 424
            assert raw.header("x-llm-proxy-error") == "cassette_unusable"
            assert raw.header("x-should-retry") == "false"
            assert raw.header("set-cookie") is None
            assert _message(raw).startswith(f"{path}:{number}: ")
            assert why in _message(raw)

    async def test_a_bad_take_spoils_its_own_key_only(self, tmp_path: Path) -> None:
        [bad] = put(tmp_path, chat("a"), says("a"))
        put(tmp_path, chat("b"), says("b"))
        _torn(bad)
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            assert await _bodies(replaying.url, [chat("b")]) == bodies([says("b")])


class TestFilesThatTheirNamesDoNotFind:
    @pytest.mark.parametrize(
        "changed",
        [{"name": "a-name-from-a-person.jsonl"}, {"key_rules": 0}, {"key_rules": 9}],
        ids=["stray name", "older key rules", "newer key rules"],
    )
    async def test_they_are_keyed_anew_from_the_request_that_they_store(
        self, tmp_path: Path, changed: dict[str, Any]
    ) -> None:
        put(tmp_path, chat(), says("found all the same"), **changed)
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            got = await _bodies(replaying.url, [chat()])
            miss = await ask(replaying.url, chat("another"))
        assert got == bodies([says("found all the same")])
        assert miss.status == 424

    async def test_takes_of_other_key_rules_keep_their_order(self, tmp_path: Path) -> None:
        answers = [says("one"), says("two"), says("three")]
        put(tmp_path, chat(), *answers, key_rules=0)
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            assert await _bodies(replaying.url, [chat()] * 3) == bodies(answers)

    async def test_more_than_nine_takes_of_other_key_rules_keep_their_order(
        self, tmp_path: Path
    ) -> None:
        answers = [says(f"take {number}") for number in range(1, 13)]
        put(tmp_path, chat(), *answers, key_rules=0)
        async with proxy("replay", tmp_path, pace=INSTANT) as replaying:
            assert await _bodies(replaying.url, [chat()] * 12) == bodies(answers)

    async def test_a_file_under_anothers_name_is_not_played_for_it(self, tmp_path: Path) -> None:
        [path] = put(tmp_path, chat("a"), says("an answer to a"))
        path.rename(path.with_name(f"{key_of(chat('b'))[:16]}-1.jsonl"))
        async with proxy("replay", tmp_path) as replaying:
            raw = await ask(replaying.url, chat("b"))
        assert raw.status == 424

    async def test_what_is_hidden_or_linked_is_not_looked_at(self, tmp_path: Path) -> None:
        [path] = put(tmp_path, chat(), says("elsewhere"))
        elsewhere = tmp_path / "elsewhere.jsonl"
        path.rename(elsewhere)
        path.symlink_to(elsewhere)
        shutil.copy(elsewhere, path.with_name(f".{path.name}"))
        async with proxy("replay", tmp_path) as replaying:
            raw = await ask(replaying.url, chat())
        assert raw.status == 424


@asynccontextmanager
async def _traced_replay(folder: Path) -> AsyncIterator[tuple[str, Path]]:
    """A replaying proxy of its own process under strace: its URL, and the trace."""
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
        yield f"http://127.0.0.1:{await appeared(port_file)}", trace
    finally:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for child in children:
            os.kill(int(child), signal.SIGTERM)
        await process.wait()


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
async def test_replay_makes_no_connection_at_all(tmp_path: Path) -> None:
    put(tmp_path, chat(), says("from the shelf"))
    put(tmp_path, chat("strange"), says("x"), name="stray.jsonl")
    models = post("/v1/models", b"", method="GET")
    requests = [chat(), chat("strange"), chat("missing"), models, chat(path="/@s/~groq/x")]
    async with _traced_replay(tmp_path) as (url, trace):
        statuses = [(await ask(url, request)).status for request in requests]
    assert statuses == [200, 200, 424, 424, 424]
    calls = trace.read_text()
    assert "bind(" in calls  # the trace is one of this proxy
    assert "connect(" not in calls
