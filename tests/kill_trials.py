"""A recording proxy that is killed at a random moment, and what is left of its recordings.

Used by `test_kill.py` and by `scripts/torture`.  Several clients read numbered messages through
a real `llm-proxy record`; each notes when it had how many.  After the kill, whatever a client
had for 50 ms must be in the library once `recover` has run.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import urlsplit

from cli_process import serving
from llm_proxy.errors import CassetteError
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording import recovery
from llm_proxy.shell.recording.recovery import KeptFile
from raw_http import post
from stub_upstream import Connection, upstream
from waiting import until

SETTLED: Final = 0.05
"""Seconds after which a message that was received survives anything."""
_CLIENTS: Final = 5
_LETTERS: Final = "abc \u00e9\u65e5\U0001f600\n\\"
_NAME: Final = re.compile(rb'"stream":(\d+),')


@dataclass
class Stream:
    """One response, as its client saw it."""

    data: bytearray = field(default_factory=bytearray)
    stamps: list[tuple[float, int]] = field(default_factory=list)
    """When there were how many bytes of body, in seconds of the loop's clock."""

    def messages_until(self, moment: float) -> bytes:
        """The messages that were whole by then."""
        size = max((size for at, size in self.stamps if at <= moment), default=0)
        return bytes(self.data[: self.data.rfind(b"\n\n", 0, size) + 2]) if size else b""


@dataclass(frozen=True, slots=True)
class KillVerdict:
    """What a kill left behind."""

    seed: int
    streams: int
    """How many responses had begun."""
    recovered: int
    """How many recordings came back."""
    torn: tuple[str, ...]
    """Files of the library that cannot be read, and spools that `recover` could not."""
    messages: int
    """How many messages had been received in time."""
    lost: int
    """How many of them are in no cassette."""

    @property
    def well(self) -> bool:
        """Whether nothing is torn and nothing lost."""
        return not self.torn and not self.lost


async def killed(folder: Path, seed: int) -> KillVerdict:
    """Record, kill, recover, and compare."""
    roll = Random(f"kill {seed}")
    seen: dict[int, Stream] = {}
    options = ("--cassettes", str(folder / "cassettes"), "--spool", str(folder / "spool"))
    async with upstream(_numbered(seed)) as live:
        target = f"default={live.url}"
        async with serving("record", *options, "--upstream", target, folder=folder) as running:
            clients = [
                asyncio.ensure_future(_read_for_ever(running.url, number, seen))
                for number in range(_CLIENTS)
            ]
            await until(lambda: bool(seen))
            await asyncio.sleep(roll.uniform(0.02, 0.7))
            moment = asyncio.get_running_loop().time()
            running.process.kill()
            await running.process.wait()
        for client in clients:
            client.cancel()
            with suppress(asyncio.CancelledError):
                await client
    return _judge(folder, seed, seen, moment - SETTLED)


def _numbered(seed: int) -> Callable[[Connection], Awaitable[None]]:
    """An upstream that streams numbered messages, some milliseconds apart."""
    names = count(1)

    async def script(connection: Connection) -> None:
        name = next(names)
        roll = Random(f"stream {seed} {name}")
        await connection.begin()
        for number in range(roll.choice([3, 30, 300])):
            text = "".join(roll.choices(_LETTERS, k=roll.choice([5, 100, 2000])))
            event = {"stream": name, "number": number, "text": text}
            payload = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
            message = f"data: {payload}\n\n".encode()
            cut = roll.randrange(len(message))
            for piece in filter(None, (message[:cut], message[cut:])):
                await connection.chunk(piece)
            await asyncio.sleep(roll.uniform(0, 0.008))
        await connection.chunk(b"data: [DONE]\n\n")
        await connection.finish()

    return script


async def _read_for_ever(url: str, number: int, seen: dict[int, Stream]) -> None:
    """Ask again and again; every second client asks the same thing each time."""
    with suppress(OSError, asyncio.IncompleteReadError):
        for again in count():
            content = f"client {number}" + (f", request {again}" if number % 2 else "")
            await _read_one(url, content, seen)


async def _read_one(url: str, content: str, seen: dict[int, Stream]) -> None:
    loop = asyncio.get_running_loop()
    parts = urlsplit(url)
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": content}]}
    request = post("/v1/chat/completions", json.dumps(body).encode(), f"Host: {parts.netloc}")
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    stream = Stream()
    try:
        writer.write(request)
        await reader.readuntil(b"\r\n\r\n")
        while size := int(await reader.readuntil(b"\r\n"), 16):
            stream.data += (await reader.readexactly(size + 2))[:-2]
            stream.stamps.append((loop.time(), len(stream.data)))
            if (name := _NAME.search(stream.data)) is not None:
                seen[int(name[1])] = stream
        await reader.readexactly(2)
    finally:
        writer.close()


def _judge(folder: Path, seed: int, seen: dict[int, Stream], moment: float) -> KillVerdict:
    torn = [*_torn(folder / "cassettes")]
    results = list(recovery.recover_spools(Library(folder / "cassettes"), folder / "spool"))
    torn += [result.reason for result in results if isinstance(result, KeptFile)]
    torn += _torn(folder / "cassettes")
    stored = _bodies(folder / "cassettes")
    messages = lost = 0
    for name, stream in seen.items():
        had = stream.messages_until(moment).split(b"\n\n")[:-1]
        have = stored.get(name, b"").split(b"\n\n")[:-1]
        messages += len(had)
        lost += sum(mine != its for mine, its in zip(had, have, strict=False))
        lost += max(0, len(had) - len(have))
    recovered = sum(not isinstance(result, KeptFile) for result in results)
    return KillVerdict(seed, len(seen), recovered, tuple(torn), messages, lost)


def _torn(root: Path) -> list[str]:
    library = Library(root)
    library.refresh()
    torn = []
    for path in library.files():
        try:
            library.load_cassette(path)
        except CassetteError as error:
            torn.append(str(error))
    return torn


def _bodies(root: Path) -> dict[int, bytes]:
    """What is stored of each stream, by its name."""
    library = Library(root)
    library.refresh()
    bodies = {}
    for path in library.files():
        body = library.load_cassette(path).body
        if (name := _NAME.search(body)) is not None:
            bodies[int(name[1])] = body
    return bodies
