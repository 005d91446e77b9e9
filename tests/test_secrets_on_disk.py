"""A credential is nowhere on the disk, neither while a stream is recorded nor afterwards.

The names of files count, and what is in them, in base64 as well.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest

from cli_process import run, serving
from in_process_proxy import cassettes, proxy
from llm_proxy.exchange import Ending
from llm_proxy.framing.eventstream import encode_frame
from llm_proxy.pacing import InstantPace
from raw_http import ask, post
from stored_cassettes import DONE
from stub_upstream import Connection, Script, upstream
from waiting import until

KEY: Final = 'sk-"canary/01\\23+45'
"""Written otherwise in JSON and in a URL, and known again by `canary` in all spellings."""
PASSWORD: Final = "canary-of-basic"
LOGIN: Final = b64encode(f"me:{PASSWORD}".encode()).decode()
BEARER: Final = f"Authorization: Bearer {KEY}"
JSON: Final = "Content-Type: application/json"
PATH: Final = "/v1/chat/completions"

_BASE64: Final = re.compile(rb"[A-Za-z0-9+/]{8,}={0,2}")


def said(text: str, model: str = "m") -> bytes:
    message = {"role": "user", "content": text}
    return json.dumps({"model": model, "stream": True, "messages": [message]}).encode()


def event(text: str) -> bytes:
    chunk = {"choices": [{"index": 0, "delta": {"content": text}}]}
    return f"data: {json.dumps(chunk)}\n\n".encode()


@dataclass(frozen=True, slots=True)
class Case:
    """Where a credential turns up."""

    request: bytes
    status: str = "200 OK"
    headers: tuple[str, ...] = ()
    pieces: tuple[bytes, ...] = (event("nothing"),)


PLAIN = post(PATH, said("hi"), JSON, BEARER)
BASIC = post(PATH, said("hi"), JSON, f"Authorization: Basic {LOGIN}")
SLASHES = json.dumps(KEY).replace("/", r"\/").encode()
ESCAPED = "".join(f"\\u{ord(item):04x}" for item in KEY)
CASES = {
    "message in escapes": Case(
        post(PATH, said("KEY").replace(b"KEY", ESCAPED.encode()), JSON, BEARER)
    ),
    "model": Case(post(PATH, said("hi", KEY), JSON, BEARER)),
    "message": Case(post(PATH, said(f"my key is {KEY}"), JSON, BEARER)),
    "path": Case(post(f"/v1/files/{quote(KEY, safe='')}", b"", BEARER)),
    "query": Case(post(f"{PATH}?key={quote(KEY, safe='')}", said(KEY), JSON)),
    "query that is not called so": Case(post(f"{PATH}?q={quote(KEY, safe='')}", b"", BEARER)),
    "reason phrase": Case(PLAIN, f"401 {KEY} is wrong"),
    "header that is stored": Case(PLAIN, "401 No", (f"WWW-Authenticate: Bearer realm={KEY}",)),
    "redirect": Case(PLAIN, "307 Go", (f"Location: /x?next={quote(KEY, safe='')}",)),
    "answer as it is": Case(PLAIN, pieces=(b": " + KEY.encode() + b"\n\n",)),
    "answer as JSON": Case(PLAIN, pieces=(event(f"so {KEY} it is"),)),
    "answer as JSON with slashes escaped": Case(PLAIN, pieces=(b"data: " + SLASHES + b"\n\n",)),
    "answer as a URL": Case(PLAIN, pieces=(event(f"/x?{quote(KEY, safe='')}"),)),
    "answer in pieces": Case(PLAIN, pieces=tuple(bytes([item]) for item in event(KEY))),
    "password of Basic": Case(BASIC, f"401 {PASSWORD}", pieces=(event(PASSWORD), event(LOGIN))),
}


def answering(case: Case, go_on: asyncio.Event) -> Script:
    async def script(connection: Connection) -> None:
        await connection.begin(*case.headers, status=case.status)
        for piece in case.pieces:
            await connection.chunk(piece)
        await go_on.wait()
        await connection.chunk(DONE)
        await connection.finish()

    return script


def written(folder: Path) -> Iterator[bytes]:
    """All that stands on the disk, also as what it is the base64 of."""
    for path in folder.rglob("*"):
        yield str(path.relative_to(folder)).encode()
        yield from _unpacked(path.read_bytes() if path.is_file() else b"", levels=2)


def _unpacked(content: bytes, levels: int) -> Iterator[bytes]:
    """What stands there, and what it is the base64 of: of a frame, perhaps, with base64 in it."""
    yield content
    for found in _BASE64.findall(content) if levels else ():
        whole = found[: len(found) // 4 * 4] if b"=" not in found else found + b"=="
        yield from _unpacked(b64decode(whole), levels - 1)


def leaks(folder: Path) -> list[bytes]:
    return [item for item in written(folder) if b"canary" in item]


def test_a_leak_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "a-canary").mkdir()
    (tmp_path / "a-canary" / "plain").write_bytes(KEY.encode())
    (tmp_path / "a-canary" / "in base64").write_bytes(b'{"base64":"%b"}' % b64encode(event(KEY)))
    (tmp_path / "a-canary" / "login").write_text(LOGIN)

    (tmp_path / "a-canary" / "packed").write_bytes(b64encode(packed(b"...%b" % KEY.encode())))

    names = [b"a-canary", b"a-canary/plain", b"a-canary/in base64", b"a-canary/login"]
    found = leaks(tmp_path)
    inner = b"...%b" % KEY.encode()
    assert sorted(found) == sorted(
        [*names, b"a-canary/packed", KEY.encode(), event(KEY), b64decode(LOGIN), inner]
    )


@pytest.mark.parametrize("name", CASES)
async def test_a_credential_is_nowhere_on_the_disk(tmp_path: Path, name: str) -> None:
    case, go_on = CASES[name], asyncio.Event()
    spool = tmp_path / "spool"
    async with upstream(answering(case, go_on)) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            asking = asyncio.ensure_future(ask(recording.url, case.request))
            await until(lambda: any(path.stat().st_size for path in spool.glob("*")))
            while_it_runs = leaks(tmp_path)
            go_on.set()
            raw = await asking

    assert while_it_runs == leaks(tmp_path) == []
    assert raw.body == b"".join(case.pieces) + DONE  # the client has it as it came
    [cassette] = cassettes(tmp_path)
    assert b"[redacted" in Path(cassette.file).read_bytes()


# --- in frames ----------------------------------------------------------------------------------


def packed(text: bytes) -> bytes:
    """A frame of InvokeModelWithResponseStream."""
    return encode_frame(FRAMED, b'{"bytes":"%b"}' % b64encode(text))


FRAMED: Final = ((":event-type", "chunk"), (":message-type", "event"))
ECHO: Final = json.dumps({"completion": f"so {KEY} it is"}).encode()
REDACTED: Final = json.dumps({"completion": "so [redacted] it is"}).encode()
INVOKE: Final = post("/model/m/invoke-with-response-stream", b"{}", JSON, BEARER)
STREAM: Final = (
    encode_frame(FRAMED, ECHO) + packed(b"{}") + encode_frame((("x", KEY),), b"") + packed(ECHO)
)
STORED: Final = (
    encode_frame(FRAMED, REDACTED)
    + packed(b"{}")
    + encode_frame((("x", "[redacted]"),), b"")
    + packed(REDACTED)
)


def framing(
    pieces: Sequence[bytes],
    go_on: asyncio.Event,
    label: str = "application/vnd.amazon.eventstream",
) -> Script:
    async def script(connection: Connection) -> None:
        await connection.begin(content_type=label)
        for piece in pieces:
            await connection.chunk(piece)
        await go_on.wait()
        await connection.finish()

    return script


LABELS: Final = ["application/vnd.amazon.eventstream", "application/json", "text/event-stream"]


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
async def test_a_credential_goes_out_of_frames_which_stay_whole(
    tmp_path: Path, size: int, label: str
) -> None:
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    go_on = asyncio.Event()
    async with upstream(framing(pieces, go_on, label)) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            asking = asyncio.ensure_future(ask(recording.url, INVOKE))
            await until(lambda: any(path.stat().st_size for path in (tmp_path / "spool").glob("*")))
            while_it_runs = leaks(tmp_path)
            go_on.set()
            raw = await asking

    assert while_it_runs == leaks(tmp_path) == []
    assert raw.body == STREAM  # the client has it as it came
    [cassette] = cassettes(tmp_path)
    assert b"".join(read.data for read in cassette.reads) == STORED
    assert cassette.end.redacted == 3


@pytest.mark.parametrize("label", LABELS[:2])
async def test_a_credential_in_frames_is_not_brought_back_by_recover(
    tmp_path: Path, label: str
) -> None:
    spool = tmp_path / "state/llm-proxy/spool"
    pieces = [STREAM, packed(ECHO)[:-9]]
    async with upstream(framing(pieces, asyncio.Event(), label)) as live:
        async with serving("record", "--upstream", f"default={live.url}", folder=tmp_path) as it:
            asking = asyncio.ensure_future(ask(it.url, INVOKE))
            await until(lambda: any(b'"read"' in path.read_bytes() for path in spool.glob("*")))
            it.send(signal.SIGKILL)
            await it.ended()
            await asking
    assert leaks(tmp_path) == []
    recovered = await run("recover", folder=tmp_path)

    assert recovered.code == 0, recovered.err
    assert leaks(tmp_path) == []
    [cassette] = cassettes(tmp_path)
    assert b"".join(read.data for read in cassette.reads) == STORED
    assert (cassette.end.ending, cassette.end.redacted) == (Ending.KILLED, 3)


# --- what is no secret, and keys ----------------------------------------------------------------

ORDINARY: Final = "Cookie: consent=accepted; region=us-east-1; lang=en-US"


async def test_ordinary_cookies_change_neither_what_is_stored_nor_what_is_found(
    tmp_path: Path,
) -> None:
    body, go_on = said("accepted in us-east-1?"), asyncio.Event()
    go_on.set()
    case = Case(post(PATH, body, JSON, BEARER, ORDINARY), pieces=(event("accepted: us-east-1"),))
    async with upstream(answering(case, go_on)) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            raw = await ask(recording.url, case.request)
    [cassette] = cassettes(tmp_path)
    assert json.loads(cassette.request.body) == json.loads(body)
    assert cassette.body == raw.body
    assert cassette.request.redacted == cassette.end.redacted == 0

    async with proxy("replay", tmp_path, pace=InstantPace()) as replaying:
        for headers in ((), (ORDINARY,), ("Authorization: Bearer us-east-1",)):
            assert (await ask(replaying.url, post(PATH, body, JSON, *headers))).body == raw.body


async def test_a_request_that_holds_a_credential_is_found_again_whoever_sends_it(
    tmp_path: Path,
) -> None:
    """And a file without what its key was made from is right, and can be held against others."""
    case, go_on = CASES["message"], asyncio.Event()
    go_on.set()
    async with upstream(answering(case, go_on)) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            raw = await ask(recording.url, case.request)
    assert leaks(tmp_path) == []
    async with proxy("replay", tmp_path, pace=InstantPace()) as replaying:
        for headers in ((), (BEARER,), ("Authorization: Bearer another-0123",)):
            again = post(PATH, said(f"my key is {KEY}"), JSON, *headers)
            assert (await ask(replaying.url, again)).body == raw.body
        other = post(PATH, said("my key is another-0123"), JSON, "x-api-key: another-0123")
        missed = (await ask(replaying.url, other)).body.decode()
        assert "held other credentials where this request holds its own" in missed
    verified = await run("verify", "cassettes", folder=tmp_path)
    assert verified.code == 0, verified.out


async def test_the_journal_shows_no_credential_of_a_path_while_it_is_being_answered(
    tmp_path: Path,
) -> None:
    case, go_on = CASES["path"], asyncio.Event()
    async with upstream(answering(case, go_on)) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            asking = asyncio.ensure_future(ask(recording.url, case.request))
            await until(lambda: bool(recording.journal.entries))
            [path] = [entry.path for entry in recording.journal.entries]
            go_on.set()
            await asking
    assert path == "/v1/files/[redacted]"
