"""No credential is on the disk, neither while a stream is recorded nor afterwards.

The checks cover file names and file contents, including base64 within them.
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

from case_tables import each_row
from cli_process import run_command, running_server
from in_process_proxy import load_cassettes, proxy
from llm_proxy.exchange import Ending
from llm_proxy.framing.eventstream import encode_frame
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.pacing import InstantPace
from raw_http import build_http_request, send_request
from stored_cassettes import DONE_EVENT
from stub_upstream import Connection, Script, chunked, upstream
from waiting import wait_until

API_KEY: Final = 'sk-"canary/01\\23+45'
"""JSON and URLs escape it; every spelling still contains `canary`."""
PASSWORD: Final = "canary-of-basic"
LOGIN: Final = b64encode(f"me:{PASSWORD}".encode()).decode()
BEARER_HEADER: Final = f"Authorization: Bearer {API_KEY}"
JSON_HEADER: Final = "Content-Type: application/json"
PATH: Final = "/v1/chat/completions"

_BASE64: Final = re.compile(rb"[A-Za-z0-9+/]{8,}={0,2}")


def chat_body(text: str, model: str = "m") -> bytes:
    message = {"role": "user", "content": text}
    return json.dumps({"model": model, "stream": True, "messages": [message]}).encode()


def delta_event(text: str) -> bytes:
    chunk = {"choices": [{"index": 0, "delta": {"content": text}}]}
    return f"data: {json.dumps(chunk)}\n\n".encode()


@dataclass(frozen=True, slots=True)
class CredentialCase:
    """A place where a credential occurs in an exchange."""

    request: bytes
    status: str = "200 OK"
    headers: tuple[str, ...] = ()
    pieces: tuple[bytes, ...] = (delta_event("nothing"),)


BEARER_REQUEST = build_http_request(PATH, chat_body("hi"), JSON_HEADER, BEARER_HEADER)
BASIC_REQUEST = build_http_request(
    PATH, chat_body("hi"), JSON_HEADER, f"Authorization: Basic {LOGIN}"
)
KEY_WITH_ESCAPED_SLASHES = json.dumps(API_KEY).replace("/", r"\/").encode()
UNICODE_ESCAPED_KEY = "".join(f"\\u{ord(item):04x}" for item in API_KEY)
CASES = {
    "message in escapes": CredentialCase(
        build_http_request(
            PATH,
            chat_body("KEY").replace(b"KEY", UNICODE_ESCAPED_KEY.encode()),
            JSON_HEADER,
            BEARER_HEADER,
        )
    ),
    "model": CredentialCase(
        build_http_request(PATH, chat_body("hi", API_KEY), JSON_HEADER, BEARER_HEADER)
    ),
    "message": CredentialCase(
        build_http_request(PATH, chat_body(f"my key is {API_KEY}"), JSON_HEADER, BEARER_HEADER)
    ),
    "path": CredentialCase(
        build_http_request(f"/v1/files/{quote(API_KEY, safe='')}", b"", BEARER_HEADER)
    ),
    "query": CredentialCase(
        build_http_request(f"{PATH}?key={quote(API_KEY, safe='')}", chat_body(API_KEY), JSON_HEADER)
    ),
    "query that is not called so": CredentialCase(
        build_http_request(f"{PATH}?q={quote(API_KEY, safe='')}", b"", BEARER_HEADER)
    ),
    "reason phrase": CredentialCase(BEARER_REQUEST, f"401 {API_KEY} is wrong"),
    "header that is stored": CredentialCase(
        BEARER_REQUEST, "401 No", (f"WWW-Authenticate: Bearer realm={API_KEY}",)
    ),
    "redirect": CredentialCase(
        BEARER_REQUEST, "307 Go", (f"Location: /x?next={quote(API_KEY, safe='')}",)
    ),
    "answer as it is": CredentialCase(BEARER_REQUEST, pieces=(b": " + API_KEY.encode() + b"\n\n",)),
    "answer as JSON": CredentialCase(BEARER_REQUEST, pieces=(delta_event(f"so {API_KEY} it is"),)),
    "answer as JSON with slashes escaped": CredentialCase(
        BEARER_REQUEST, pieces=(b"data: " + KEY_WITH_ESCAPED_SLASHES + b"\n\n",)
    ),
    "answer as a URL": CredentialCase(
        BEARER_REQUEST, pieces=(delta_event(f"/x?{quote(API_KEY, safe='')}"),)
    ),
    "answer in pieces": CredentialCase(
        BEARER_REQUEST, pieces=tuple(bytes([item]) for item in delta_event(API_KEY))
    ),
    "password of Basic": CredentialCase(
        BASIC_REQUEST, f"401 {PASSWORD}", pieces=(delta_event(PASSWORD), delta_event(LOGIN))
    ),
}


def case_script(case: CredentialCase, resume: asyncio.Event) -> Script:
    async def script(connection: Connection) -> None:
        await connection.begin(*case.headers, status=case.status)
        for piece in case.pieces:
            await connection.chunk(piece)
        await resume.wait()
        await connection.chunk(DONE_EVENT)
        await connection.finish()

    return script


def stored_bytes(folder: Path) -> Iterator[bytes]:
    """Yield all file names and contents, with every base64 string in them decoded too."""
    for path in folder.rglob("*"):
        yield str(path.relative_to(folder)).encode()
        yield from _with_decoded_base64(path.read_bytes() if path.is_file() else b"", levels=2)


def _with_decoded_base64(content: bytes, levels: int) -> Iterator[bytes]:
    """Yield the content and its decoded base64, which may be a frame that holds base64 itself."""
    yield content
    for encoded in _BASE64.findall(content) if levels else ():
        padded = encoded[: len(encoded) // 4 * 4] if b"=" not in encoded else encoded + b"=="
        yield from _with_decoded_base64(b64decode(padded), levels - 1)


def leaks(folder: Path) -> list[bytes]:
    return [item for item in stored_bytes(folder) if b"canary" in item]


def test_a_leak_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "a-canary").mkdir()
    (tmp_path / "a-canary" / "plain").write_bytes(API_KEY.encode())
    (tmp_path / "a-canary" / "in base64").write_bytes(
        b'{"base64":"%b"}' % b64encode(delta_event(API_KEY))
    )
    (tmp_path / "a-canary" / "login").write_text(LOGIN)

    (tmp_path / "a-canary" / "packed").write_bytes(
        b64encode(bedrock_frame(b"...%b" % API_KEY.encode()))
    )

    names = [b"a-canary", b"a-canary/plain", b"a-canary/in base64", b"a-canary/login"]
    found_leaks = leaks(tmp_path)
    inner = b"...%b" % API_KEY.encode()
    assert sorted(found_leaks) == sorted(
        [
            *names,
            b"a-canary/packed",
            API_KEY.encode(),
            delta_event(API_KEY),
            b64decode(LOGIN),
            inner,
        ]
    )


@pytest.mark.parametrize("name", CASES)
async def test_a_credential_is_nowhere_on_the_disk(tmp_path: Path, name: str) -> None:
    case, resume = CASES[name], asyncio.Event()
    spool = tmp_path / "spool"
    async with upstream(case_script(case, resume)) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            pending_response = asyncio.ensure_future(send_request(recording.url, case.request))
            await wait_until(lambda: any(path.stat().st_size for path in spool.glob("*")))
            leaks_while_running = leaks(tmp_path)
            resume.set()
            raw = await pending_response

    assert leaks_while_running == leaks(tmp_path) == []
    assert raw.body == b"".join(case.pieces) + DONE_EVENT  # the client gets it unchanged
    [cassette] = load_cassettes(tmp_path)
    assert b"[redacted" in Path(cassette.file).read_bytes()


# --- in frames ----------------------------------------------------------------------------------


def bedrock_frame(text: bytes) -> bytes:
    """Encode a frame of `InvokeModelWithResponseStream`."""
    return encode_frame(FRAME_HEADERS, b'{"bytes":"%b"}' % b64encode(text))


FRAME_HEADERS: Final = ((":event-type", "chunk"), (":message-type", "event"))
PAYLOAD: Final = json.dumps({"completion": f"so {API_KEY} it is"}).encode()
REDACTED_PAYLOAD: Final = json.dumps({"completion": "so [redacted-client] it is"}).encode()
INVOKE_REQUEST: Final = build_http_request(
    "/model/m/invoke-with-response-stream", b"{}", JSON_HEADER, BEARER_HEADER
)
STREAM: Final = (
    encode_frame(FRAME_HEADERS, PAYLOAD)
    + bedrock_frame(b"{}")
    + encode_frame((("x", API_KEY),), b"")
    + bedrock_frame(PAYLOAD)
)
STORED: Final = (
    encode_frame(FRAME_HEADERS, REDACTED_PAYLOAD)
    + bedrock_frame(b"{}")
    + encode_frame((("x", "[redacted-client]"),), b"")
    + bedrock_frame(REDACTED_PAYLOAD.replace(b"client]", b"client] "))  # whole groups of base64
)


def chunked_script(
    pieces: Sequence[bytes],
    resume: asyncio.Event,
    content_type: str = "application/vnd.amazon.eventstream",
) -> Script:
    async def script(connection: Connection) -> None:
        await connection.begin(content_type=content_type)
        for piece in pieces:
            await connection.chunk(piece)
        await resume.wait()
        await connection.finish()

    return script


CONTENT_TYPES: Final = [
    "application/vnd.amazon.eventstream",
    "application/json",
    "text/event-stream",
]


@pytest.mark.parametrize("content_type", CONTENT_TYPES)
@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
async def test_a_credential_is_redacted_in_frames_which_stay_valid(
    tmp_path: Path, size: int, content_type: str
) -> None:
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    resume = asyncio.Event()
    async with upstream(chunked_script(pieces, resume, content_type)) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            pending_response = asyncio.ensure_future(send_request(recording.url, INVOKE_REQUEST))
            await wait_until(
                lambda: any(path.stat().st_size for path in (tmp_path / "spool").glob("*"))
            )
            leaks_while_running = leaks(tmp_path)
            resume.set()
            raw = await pending_response

    assert leaks_while_running == leaks(tmp_path) == []
    assert raw.body == STREAM  # the client gets it unchanged
    [cassette] = load_cassettes(tmp_path)
    assert b"".join(read.received_bytes for read in cassette.reads) == STORED
    assert cassette.response_end.redacted_count == 3


@pytest.mark.parametrize("content_type", CONTENT_TYPES[:2])
async def test_a_credential_in_frames_is_not_brought_back_by_recover(
    tmp_path: Path, content_type: str
) -> None:
    spool = tmp_path / "state/llm-proxy/spool"
    pieces = [STREAM, bedrock_frame(PAYLOAD)[:-9]]
    async with upstream(chunked_script(pieces, asyncio.Event(), content_type)) as live:
        async with running_server(
            "record", "--upstream", f"default={live.url}", folder=tmp_path
        ) as recording:
            pending_response = asyncio.ensure_future(send_request(recording.url, INVOKE_REQUEST))
            await wait_until(
                lambda: any(b'"read"' in path.read_bytes() for path in spool.glob("*"))
            )
            recording.send(signal.SIGKILL)
            await recording.wait_for_end()
            await pending_response
    assert leaks(tmp_path) == []
    recovered = await run_command("recover", folder=tmp_path)

    assert recovered.exit_code == 0, recovered.stderr
    assert leaks(tmp_path) == []
    [cassette] = load_cassettes(tmp_path)
    assert b"".join(read.received_bytes for read in cassette.reads) == STORED
    assert (cassette.response_end.ending, cassette.response_end.redacted_count) == (
        Ending.KILLED,
        3,
    )


# --- values that are no secret, and keys --------------------------------------------------------

ORDINARY_COOKIES: Final = "Cookie: consent=accepted; region=us-east-1; lang=en-US"


async def test_ordinary_cookies_change_neither_what_is_stored_nor_what_is_found(
    tmp_path: Path,
) -> None:
    body, resume = chat_body("accepted in us-east-1?"), asyncio.Event()
    resume.set()
    case = CredentialCase(
        build_http_request(PATH, body, JSON_HEADER, BEARER_HEADER, ORDINARY_COOKIES),
        pieces=(delta_event("accepted: us-east-1"),),
    )
    async with upstream(case_script(case, resume)) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            raw = await send_request(recording.url, case.request)
    [cassette] = load_cassettes(tmp_path)
    assert json.loads(cassette.request.body) == json.loads(body)
    assert cassette.response_body == raw.body
    assert cassette.request.redacted_count == cassette.response_end.redacted_count == 0

    async with proxy("replay", tmp_path, pace=InstantPace()) as replaying:
        for headers in ((), (ORDINARY_COOKIES,), ("Authorization: Bearer us-east-1",)):
            assert (
                await send_request(
                    replaying.url, build_http_request(PATH, body, JSON_HEADER, *headers)
                )
            ).body == raw.body


async def test_a_request_that_holds_a_credential_is_found_again_whoever_sends_it(
    tmp_path: Path,
) -> None:
    """A file without the values that its key was computed from is valid and can be compared."""
    case, resume = CASES["message"], asyncio.Event()
    resume.set()
    async with upstream(case_script(case, resume)) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            raw = await send_request(recording.url, case.request)
    assert leaks(tmp_path) == []
    async with proxy("replay", tmp_path, pace=InstantPace()) as replaying:
        for headers in ((), (BEARER_HEADER,), ("Authorization: Bearer another-0123",)):
            repeated_request = build_http_request(
                PATH, chat_body(f"my key is {API_KEY}"), JSON_HEADER, *headers
            )
            assert (await send_request(replaying.url, repeated_request)).body == raw.body
        other_request = build_http_request(
            PATH, chat_body("my key is another-0123"), JSON_HEADER, "x-api-key: another-0123"
        )
        miss_message = (await send_request(replaying.url, other_request)).body.decode()
        assert "was recorded with different credentials in the request" in miss_message
    verified = await run_command("verify", "cassettes", folder=tmp_path)
    assert verified.exit_code == 0, verified.stdout


async def test_the_journal_shows_no_credential_of_a_path_while_it_is_being_answered(
    tmp_path: Path,
) -> None:
    case, resume = CASES["path"], asyncio.Event()
    async with upstream(case_script(case, resume)) as live:
        async with proxy("record", tmp_path, live.url) as recording:
            pending_response = asyncio.ensure_future(send_request(recording.url, case.request))
            await wait_until(lambda: bool(recording.journal.entries))
            [path] = [entry.path for entry in recording.journal.entries]
            resume.set()
            await pending_response
    assert path == "/v1/files/[redacted-client]"


@each_row(
    ("path", "body", "rules", "places"),
    [
        (PATH, {"messages": [{"content": API_KEY}]}, [], ["$.messages[0].content"]),
        (PATH, {"trace": {"a b": API_KEY}}, [], ["$.trace['a b']"]),
        (PATH, {"trace": {"a b": API_KEY}}, ["ignore=$.trace"], []),
        (PATH, {"trace": API_KEY, "user": API_KEY}, ["ignore=$.trace"], ["$.user"]),
        ("/v1/messages", {"metadata": {"user_id": API_KEY}}, ["claude-code"], []),
        ("/v1/messages", {"metadata": {"other": API_KEY}}, ["claude-code"], ["$.metadata.other"]),
        (f"/v1/files/{quote(API_KEY, safe='')}", {}, [], ["path"]),
        (f"{PATH}?q={quote(API_KEY, safe='')}", {}, ["ignore=$.q"], ["query"]),
    ],
)
async def test_a_credential_in_a_field_that_counts_for_the_key_gives_a_warning(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    path: str,
    body: dict[str, object],
    rules: list[str],
    places: list[str],
) -> None:
    caplog.clear()
    request = build_http_request(path, json.dumps(body).encode(), JSON_HEADER, BEARER_HEADER)
    async with upstream(chunked([DONE_EVENT])) as live:
        match_rules = parse_rules(rules)
        async with proxy("record", tmp_path, live.url, match_rules=match_rules) as recording:
            await send_request(recording.url, request)
    warnings = [message for message in caplog.messages if "the key depends on" in message]
    assert [
        re.findall("the request contains a client credential at (.*?);", warning)
        for warning in warnings
    ] == [[place] for place in places]
    assert leaks(tmp_path) == []
