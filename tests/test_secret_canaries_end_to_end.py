"""No secret is on the disk or in an output, from the recording of a stream to its export."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from base64 import b64decode
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

from cli_process import RunningCommand, run_command, running_server
from in_process_proxy import load_cassettes
from llm_proxy.framing import split_messages
from raw_http import build_http_request, send_request
from secret_canaries import (
    CARRIERS,
    CLIENT_SECRET,
    ENVIRONMENT_SECRET,
    decoded_views,
    joined_texts,
    rest_of,
)
from stored_cassettes import DONE_EVENT
from stub_upstream import Connection, Script, upstream
from waiting import wait_until

PATH: Final = "/v1/chat/completions"
SECRETS: Final = "; ".join(carrier.full_text for carrier in CARRIERS.values())
"""All secrets in one text."""
_READ: Final = rb'^\{"read":.*"base64":"(.*)"\}$'
_KEY: Final = CARRIERS["Anthropic key"].secret
_ENVIRONMENT: Final = {"DB_PASSWORD": ENVIRONMENT_SECRET}
_PAGES: Final = ("health", "journal", "misses", "verdict", "unsuccessful")
_HEADERS: Final = (
    f'ETag: "{_KEY}"',
    f'Content-Disposition: attachment; filename="{CARRIERS["Google key"].secret}"',
    f"Location: https://me:{CARRIERS['URL password'].secret}@a.example/x?q={_KEY}",
    f"X-Error-Message: {CARRIERS['GitHub token'].secret} of {CLIENT_SECRET} is wrong",
)


def chat_request(text: str, path: str = PATH) -> bytes:
    """A chat request about a text, with a credential, and with a secret in its query."""
    message = {"role": "user", "content": f"Is this right? {text}"}
    body = {"model": "m", "stream": True, "messages": [message], "metadata": {"password": text}}
    return build_http_request(
        f"{path}?note={quote(SECRETS, safe='')}",
        json.dumps(body).encode(),
        "Content-Type: application/json",
        f"x-api-key: {CLIENT_SECRET}",
        f"Cookie: __cf_bm={CARRIERS['Cloudflare cookie'].secret}",
    )


def events(text: str, size: int) -> list[bytes]:
    """A chat stream of a text, `size` characters per event."""
    return [
        b"data: %b\n\n"
        % json.dumps(
            {"choices": [{"index": 0, "delta": {"content": text[at : at + size]}}]}
        ).encode()
        for at in range(0, len(text), size)
    ]


def answer(messages: Iterable[bytes], resume: asyncio.Event) -> Script:
    """A stream of messages, the end of which waits."""

    async def script(connection: Connection) -> None:
        await connection.begin(*_HEADERS, status=f"200 {_KEY}")
        for message in messages:
            await connection.chunk(message)
        await resume.wait()
        await connection.chunk(DONE_EVENT)
        await connection.finish()

    return script


def leaks(outputs: Iterable[bytes]) -> list[str]:
    """What is left of any secret."""
    views = [view for output in outputs for view in decoded_views(output, 1)]
    found = (rest_of(carrier.secret, views, 0) for carrier in CARRIERS.values())
    return [each for each in found if each]


def stored_files(folder: Path) -> Iterator[bytes]:
    """The names and contents of all files."""
    for path in folder.rglob("*"):
        yield str(path.relative_to(folder)).encode()
        if path.is_file():
            yield path.read_bytes()


def spooled_bytes(folder: Path) -> bytes:
    """The body in the spool, as far as it is written."""
    lines = [line for path in folder.rglob("*.spool") for line in path.read_bytes().splitlines()]
    return b"".join(b64decode(each) for line in lines for each in re.findall(_READ, line))


def texts_of_answers(folder: Path) -> Iterator[bytes]:
    """The joined texts of all recorded answers."""
    for cassette in load_cassettes(folder):
        messages = split_messages("sse", cassette.response_body)
        yield from joined_texts(
            json.loads(message[6:]) for message in messages if message.startswith(b"data: {")
        )


async def pages(running: RunningCommand) -> list[bytes]:
    """What the proxy shows of itself."""
    requests = [build_http_request(f"/_proxy/{page}", b"", method="GET") for page in _PAGES]
    return [(await send_request(running.url, request)).body for request in requests]


async def run_outputs(folder: Path, *commands: tuple[str, ...]) -> list[bytes]:
    """What these commands write."""
    results = [await run_command(*each, folder=folder, env=_ENVIRONMENT) for each in commands]
    assert all(result.stdout for result in results)
    return [(result.stdout + result.stderr).encode() for result in results]


def test_a_leak_would_be_found() -> None:
    assert len(leaks([chat_request(SECRETS)])) == len(CARRIERS)
    assert len(leaks([json.dumps({"body": SECRETS}).encode()])) == len(CARRIERS)


async def test_no_secret_is_left_of_a_recording_its_replay_and_its_exports(tmp_path: Path) -> None:
    resume, messages = asyncio.Event(), [*events(SECRETS, 10_000), *events(SECRETS, 3)]
    request = chat_request(SECRETS)
    async with (
        upstream(answer(messages, resume)) as live,
        running_server(
            "record", "--upstream", f"default={live.url}", "--journal", "record.json",
            folder=tmp_path, env=_ENVIRONMENT,
        ) as recording,
    ):  # fmt: skip
        pending = asyncio.ensure_future(send_request(recording.url, request))
        await wait_until(lambda: spooled_bytes(tmp_path).endswith(messages[-1]))
        outputs = [*stored_files(tmp_path), *await pages(recording)]
        resume.set()
        received = await pending
        outputs += await pages(recording)
        recording.send(signal.SIGTERM)
        ended = await recording.wait_for_end()
    assert received.body == b"".join(messages) + DONE_EVENT  # the client gets it unchanged
    outputs += [(ended.stdout + ended.stderr).encode(), *texts_of_answers(tmp_path)]
    assert leaks([*outputs, *stored_files(tmp_path)]) == []

    async with running_server(
        "replay", "--journal", "replay.json", folder=tmp_path, env=_ENVIRONMENT
    ) as replaying:
        replayed = await send_request(replaying.url, request)
        missed = await send_request(replaying.url, chat_request(f"{SECRETS} again"))
        outputs = [replayed.body, missed.body, *await pages(replaying)]
        replaying.send(signal.SIGTERM)
        ended = await replaying.wait_for_end()
    assert (replayed.status, missed.status) == (200, 424)
    body = request.partition(b"\r\n\r\n")[2].replace(b"right?", b"wrong?")
    (tmp_path / "request.json").write_bytes(body)
    [cassette] = load_cassettes(tmp_path)
    take = Path(cassette.file).name[:16]
    outputs += [
        (ended.stdout + ended.stderr).encode(),
        *await run_outputs(
            tmp_path,
            ("show", take, "--full"),
            ("show", take, "--json"),
            ("show", take, "--review"),
            ("ls", "--json"),
            ("verify", "--json"),
            ("report", "replay.json"),
            ("explain", "request.json", "--header", f"x-api-key: {CLIENT_SECRET}"),
            ("explain", "request.json", "--header", f"x-api-key: {CLIENT_SECRET}", "--json"),
            *(("export", take, "--format", name) for name in ("har", "vcr", "sse", "curl")),
            ("export", take, "--as", "anthropic"),
            ("export", take, "--as", "gemini", "--whole"),
        ),
    ]
    (tmp_path / "request.json").unlink()
    assert leaks([*outputs, *stored_files(tmp_path)]) == []


async def test_no_secret_is_left_of_a_recording_that_was_killed(tmp_path: Path) -> None:
    known_after_a_crash = SECRETS.replace(CLIENT_SECRET, "")  # what is not found: its pieces
    messages = [*events(SECRETS, 10_000), *events(known_after_a_crash, 3)]
    async with (
        upstream(answer(messages, asyncio.Event())) as live,
        running_server(
            "record", "--upstream", f"default={live.url}", folder=tmp_path, env=_ENVIRONMENT
        ) as recording,
    ):
        pending = asyncio.ensure_future(send_request(recording.url, chat_request(SECRETS)))
        await wait_until(lambda: spooled_bytes(tmp_path).endswith(messages[-1]))
        recording.send(signal.SIGKILL)
        await recording.wait_for_end()
        await pending
    assert leaks(stored_files(tmp_path)) == []

    recovered = await run_command("recover", folder=tmp_path, env=_ENVIRONMENT)

    assert recovered.exit_code == 0, recovered.stderr
    outputs = [(recovered.stdout + recovered.stderr).encode(), *texts_of_answers(tmp_path)]
    assert leaks([*outputs, *stored_files(tmp_path)]) == []


async def test_no_secret_is_left_of_a_request_that_fails(tmp_path: Path) -> None:
    target = f"http://me:{_KEY}@a.example/{CARRIERS['Google key'].secret}"
    async with running_server(
        "record", "--upstream", "default=http://127.0.0.1:9", "--journal", "journal.json",
        folder=tmp_path, env=_ENVIRONMENT,
    ) as recording:  # fmt: skip
        for request in (
            chat_request(SECRETS),
            chat_request(SECRETS, f"/v1/{CARRIERS['GitHub token'].secret}"),
            build_http_request(target, b"{}", f"x-api-key: {CLIENT_SECRET}"),
            build_http_request(f"/v1/x {_KEY}", b"{}", f"x-{_KEY}: a"),
            build_http_request("/v1/x", b"{}", f"Host: {_KEY}.example"),
            build_http_request(f"/_proxy/{_KEY}", b"", method="GET"),
        ):
            await send_request(recording.url, request)
        outputs = await pages(recording)
        recording.send(signal.SIGTERM)
        ended = await recording.wait_for_end()
    outputs += [(ended.stdout + ended.stderr).encode(), *stored_files(tmp_path)]
    assert leaks(outputs) == []
