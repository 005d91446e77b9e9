"""Upstreams that break off in every way, and clients that make it hard: trials and their verdicts.

Used by `test_endings.py` and by `scripts/torture`.  A trial is one exchange through a recording
proxy.  Its request names the case, the client and a seed; everything random is rolled from
these, so both ends know what crosses the wire, and a trial can be run again.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final, Literal
from urllib.parse import urlsplit

from llm_proxy.cassette import Cassette
from llm_proxy.exchange import Ending
from llm_proxy.outcomes import outcome
from llm_proxy.shell.wire import unsent
from proxying import cassettes, proxy
from raw import post
from stub import Connection, upstream

IDLE: Final = 0.5
"""Seconds that an upstream of these trials may be silent."""
SOON: Final = 0.1
"""Seconds in which an upstream must be let go when its client has left."""
_AT_ONCE: Final = 20
"""Trials that run at the same time."""
_BEAT: Final = 0.005
_LETTERS: Final = "abc defg\u00e9\u00df\u2028\u65e5\u672c\U0001f600\\\"\t"

Client = Literal["fast", "slow", "gone"]
How = Literal["clean", "fin", "rst"]


@dataclass(frozen=True, slots=True)
class Case:
    """One way in which an upstream ends, and what is true afterwards."""

    name: str
    body: Literal["chunked", "length", "close", "none"]
    """How the body is delimited; `none`: it ends before the head."""
    end: Literal["clean", "fin", "rst", "stall", "bad-size", "bad-chunk-end", "mid-chunk", "open"]
    ending: Ending | None
    """What is stored; None where nothing is."""
    seen: How
    """How the response ends for the client."""
    status: int = 200
    whole: bool = False
    """Whether everything is said, so that the outcome is complete."""


CASES: Final = (
    Case("chunked, clean", "chunked", "clean", Ending.CLEAN, "clean", whole=True),
    Case("chunked, fin", "chunked", "fin", Ending.FIN, "fin"),
    Case("chunked, rst", "chunked", "rst", Ending.RST, "rst"),
    Case("chunked, fin in a chunk", "chunked", "mid-chunk", Ending.FIN, "fin"),
    Case("chunked, malformed size", "chunked", "bad-size", Ending.MALFORMED, "rst"),
    Case("chunked, malformed end", "chunked", "bad-chunk-end", Ending.MALFORMED, "rst"),
    Case("chunked, stall", "chunked", "stall", Ending.STALLED, "rst"),
    Case("length, clean", "length", "clean", Ending.CLEAN, "clean", whole=True),
    Case("length, fin", "length", "fin", Ending.FIN, "fin"),
    Case("length, rst", "length", "rst", Ending.RST, "rst"),
    Case("length, stall", "length", "stall", Ending.STALLED, "rst"),
    Case("close, clean", "close", "clean", Ending.CLEAN, "fin", whole=True),
    Case("close, without [DONE]", "close", "fin", Ending.CLEAN, "fin"),
    Case("close, rst", "close", "rst", Ending.RST, "rst"),
    Case("close, stall", "close", "stall", Ending.STALLED, "rst"),
    Case("no head, fin", "none", "fin", None, "clean", 502),
    Case("no head, rst", "none", "rst", None, "clean", 502),
    Case("no head, half of it", "none", "mid-chunk", None, "clean", 502),
    Case("no head, not HTTP", "none", "open", None, "clean", 502),
    Case("no head, stall", "none", "stall", None, "clean", 504),
)


@dataclass(frozen=True, slots=True)
class Trial:
    """One exchange."""

    case: Case
    client: Client
    seed: int
    finishing: bool = False
    """Whether the proxy reads to the end although the client has left."""

    @property
    def name(self) -> str:
        """Unlike any other trial's."""
        return f"{self.case.name}/{self.client}/{self.finishing:d}/{self.seed}"

    def random(self, what: str) -> Random:
        """The rolls of this trial for one purpose."""
        return Random(f"{self.name}/{what}")

    @property
    def request(self) -> bytes:
        """What the client sends."""
        content = {"role": "user", "content": self.name}
        body = {"model": self.case.name, "stream": True, "messages": [content]}
        return post(
            "/v1/chat/completions",
            json.dumps(body).encode(),
            "Content-Type: application/json",
            "Connection: close",
        )

    @property
    def wire(self) -> tuple[bytes, bytes]:
        """What the upstream writes, and the body in it."""
        case, roll = self.case, self.random("wire")
        if case.body == "none":
            return _before_the_head(case, roll), b""
        whole = _stream(roll)
        cut = len(whole) if case.whole else _cut(whole, roll)
        return _framed(case, whole, cut, roll)


def _before_the_head(case: Case, roll: Random) -> bytes:
    match case.end:
        case "mid-chunk":
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            return head[: roll.randrange(1, len(head))]
        case "open":
            return roll.choice([b"SSH-2.0-OpenSSH_9.2\r\n", b"\x15\x03\x01\x00\x02\x02", b"hello\n"])
        case _:
            return b""


def _stream(roll: Random) -> bytes:
    """A whole stream of chat completion chunks, with characters of every width."""
    events = []
    for number in range(roll.choice([1, 3, 10, 40])):
        text = "".join(roll.choices(_LETTERS, k=roll.choice([1, 5, 30, 300])))
        delta = {"index": 0, "delta": {"content": f"{number} {text}"}}
        payload = json.dumps({"choices": [delta]}, ensure_ascii=False)
        events.append(f"data: {payload}\n\n".encode())
    return b"".join([*events, b"data: [DONE]\n\n"])


def _cut(whole: bytes, roll: Random) -> int:
    """Where a stream breaks off: nowhere in particular, and never so late that it is whole."""
    return roll.randrange(0 if roll.random() < 0.2 else 1, len(whole) - len(b"data: [DONE]\n\n"))


def _framed(case: Case, whole: bytes, cut: int, roll: Random) -> tuple[bytes, bytes]:
    body = whole[:cut]
    head = [b"HTTP/1.1 200 OK", b"Content-Type: text/event-stream"]
    match case.body:
        case "length":
            head.append(b"Content-Length: %d" % len(whole))
            framed = body
        case "close":
            head.append(b"Connection: close")
            framed = body
        case _:
            head.append(b"Transfer-Encoding: chunked")
            framed, body = _chunks(case, body, roll)
    return b"\r\n".join([*head, b"", framed]), body


def _chunks(case: Case, body: bytes, roll: Random) -> tuple[bytes, bytes]:
    framed = b"".join(b"%x\r\n%b\r\n" % (len(it), it) for it in pieces(body, roll))
    match case.end:
        case "clean":
            return framed + b"0\r\n\r\n", body
        case "mid-chunk":
            return framed + b"40\r\nhalf a chunk", body + b"half a chunk"
        case "bad-size":
            return framed + roll.choice([b"zz\r\n", b"-1\r\n", b"\r\n\r\n"]), body
        case "bad-chunk-end":
            return framed + b"5\r\nhelloXX5\r\nhello\r\n", body + b"hello"
        case _:
            return framed, body


def pieces(data: bytes, roll: Random) -> list[bytes]:
    """`data` in pieces of random sizes, none of them empty."""
    largest = roll.choice([1, 7, 64, 1000, 20_000])
    largest = max(largest, len(data) // 10)
    cut: list[bytes] = []
    while data:
        size = roll.randint(1, largest)
        cut.append(data[:size])
        data = data[size:]
    return cut


@dataclass
class Moments:
    """When things happened to one trial, in seconds of the loop's clock."""

    asked: float = 0.0
    """The upstream had the request."""
    broke: float = 0.0
    """The upstream had done its last deed."""
    released: float = 0.0
    """The upstream saw its connection end, where it did not end it itself."""
    left: float = 0.0
    """The client closed, where it did not read to the end."""


@dataclass
class Seen:
    """What a client got."""

    data: bytes = b""
    how: Literal["fin", "rst", "left"] = "left"
    at: float = 0.0


@dataclass
class Field:
    """Where trials run: an upstream, a proxy in front of it, and what happened."""

    proxy_url: str
    moments: dict[str, Moments] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    beats: list[float] = field(default_factory=list)
    """Moments at which the event loop had its turn, in seconds of its clock."""

    async def beat(self) -> None:
        """Feel the pulse of the event loop that everybody here shares."""
        loop = asyncio.get_running_loop()
        while True:
            self.beats.append(loop.time())
            await asyncio.sleep(_BEAT)

    def stolen(self, since: float, until: float) -> float:
        """Seconds in which the event loop had no turn: they are nobody's fault."""
        beats = [since, *(it for it in self.beats if since < it < until), until]
        return sum(max(0.0, b - a - _BEAT) for a, b in pairwise(beats))

    async def run(self, trials: Iterable[Trial]) -> None:
        """Run these trials, some at a time."""
        places = asyncio.Semaphore(_AT_ONCE)

        async def one(trial: Trial) -> None:
            async with places:
                self.moments[trial.name] = moments = Moments()
                self.seen[trial.name] = await _converse(self.proxy_url, trial, moments)

        mixed = sorted(trials, key=lambda trial: trial.random("order").random())
        async with asyncio.TaskGroup() as group:
            for trial in mixed:
                group.create_task(one(trial))


@asynccontextmanager
async def trial_field(folder: Path, *, finishing: bool, idle: float = IDLE) -> AsyncIterator[Field]:
    """An upstream that breaks off as it is asked to, behind a proxy that records to `folder`."""
    it = Field("")

    async def script(connection: Connection) -> None:
        name = json.loads(connection.body)["messages"][0]["content"]
        await _break_off(connection, parse(name), it.moments[name])

    async with upstream(script) as live:
        async with proxy(
            "record", folder, live.url, idle_timeout=idle, finish_on_disconnect=finishing
        ) as recording:
            it.proxy_url = recording.url
            pulse = asyncio.ensure_future(it.beat())
            yield it
            await recording.drain(asyncio.Event())
            pulse.cancel()


def parse(name: str) -> Trial:
    """The trial of that name."""
    case, client, finishing, seed = name.split("/")
    clients: dict[str, Client] = {"fast": "fast", "slow": "slow", "gone": "gone"}
    by_name = {it.name: it for it in CASES}
    return Trial(by_name[case], clients[client], int(seed), finishing == "1")


async def _break_off(connection: Connection, trial: Trial, moments: Moments) -> None:
    loop = asyncio.get_running_loop()
    moments.asked = loop.time()
    wire, _ = trial.wire
    roll = trial.random("writes")
    hurry = roll.random() < 0.4
    sock = connection.writer.get_extra_info("socket")
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        for piece in pieces(wire, roll):
            await connection.send(piece)
            if not hurry:
                await asyncio.sleep(roll.choice([0, 0, 0, 0.001, 0.003]))
        await _end(connection, trial.case, moments)
    except ConnectionError:
        moments.broke = moments.broke or loop.time()
        moments.released = loop.time()
        raise


async def _end(connection: Connection, case: Case, moments: Moments) -> None:
    loop = asyncio.get_running_loop()
    moments.broke = loop.time()
    match case.end:
        case "clean" if case.body != "close":
            return  # the connection stays open for the next request
        case "clean" | "fin" | "mid-chunk":
            connection.fin()
        case "rst":
            await reset(connection.writer)
        case _:
            with suppress(ConnectionError):
                await connection.reader.read(1)
            moments.released = loop.time()
            connection.fin()


async def reset(writer: asyncio.StreamWriter) -> None:
    """Reset a connection once the peer's kernel has everything."""
    sock = writer.get_extra_info("socket")
    while not writer.transport.is_closing() and (
        writer.transport.get_write_buffer_size() or unsent(sock)
    ):
        await asyncio.sleep(0.001)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _converse(url: str, trial: Trial, moments: Moments) -> Seen:
    """Be the client: on a bare socket, because stream readers drop bytes when a reset comes."""
    loop = asyncio.get_running_loop()
    parts = urlsplit(url)
    roll = trial.random("client")
    with socket.socket() as sock:
        sock.setblocking(False)
        if trial.client == "slow":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await loop.sock_connect(sock, (parts.hostname, parts.port))
        line, _, rest = trial.request.partition(b"\r\n")
        host = f"Host: {parts.netloc}\r\n".encode()
        await loop.sock_sendall(sock, line + b"\r\n" + host + rest)
        async with asyncio.timeout(20):
            seen = await _receive(sock, trial, roll)
        seen.at = loop.time()
        if seen.how == "left":
            moments.left = seen.at
        return seen


async def _receive(sock: socket.socket, trial: Trial, roll: Random) -> Seen:
    loop = asyncio.get_running_loop()
    seen = Seen()
    wanted = roll.choice([0, 1, 200, 400, 2000]) if trial.client == "gone" else None
    if trial.client == "slow":
        await asyncio.sleep(roll.uniform(0.05, 0.2))
    if trial.client == "gone":
        await asyncio.sleep(roll.choice([0.0, 0.005, 0.05]))
    while wanted is None or len(seen.data) < wanted:
        try:
            async with asyncio.timeout(IDLE / 2 if trial.client == "gone" else None):
                data = await loop.sock_recv(sock, roll.choice([500, 65536]))
        except TimeoutError:
            return seen
        except ConnectionResetError:
            seen.how = "rst"
            return seen
        if not data:
            seen.how = "fin"
            return seen
        seen.data += data
    return seen


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a trial."""

    trial: Trial
    lost: int = 0
    """Bytes that the upstream sent and that the client or the disk lacks."""
    wrong: str = ""
    """What is not as it must be; empty where all is well."""
    notice: float = 0.0
    """Seconds from the upstream's end (for a stall: from its limit) until it was noticed."""


def judge(folder: Path, it: Field, trials: Sequence[Trial]) -> list[Verdict]:
    """The verdicts on trials that are over, and whose recordings are in `folder`."""
    stored = {
        json.loads(cassette.request.body)["messages"][0]["content"]: cassette
        for cassette in cassettes(folder)
    }
    verdicts = []
    for trial in trials:
        seen, moments = it.seen[trial.name], it.moments[trial.name]
        cassette = stored.get(trial.name)
        if seen.how == "left":
            verdicts.append(_judge_gone(trial, it, cassette))
        else:
            verdicts.append(_judge_reader(trial, seen, moments, cassette))
    return verdicts


def _judge_reader(
    trial: Trial, seen: Seen, moments: Moments, cassette: Cassette | None
) -> Verdict:
    case = trial.case
    _, sent = trial.wire
    status, body, how = dissect(seen)
    faults = [] if status == case.status else [f"status {status}"]
    if how != case.seen:
        faults.append(f"the client saw {how}, not {case.seen}")
    if case.ending is None:
        faults += _refusal_faults(body, cassette)
        noticed = seen.at if trial.client == "fast" else moments.broke
        return Verdict(trial, 0, "; ".join(faults), _notice(trial, moments, noticed))
    lost = _lost(sent, body)
    if cassette is None:
        return Verdict(trial, lost, "; ".join([*faults, "not on disk"]))
    lost += _lost(sent, cassette.body)
    faults += _cassette_faults(case, cassette)
    noticed = seen.at if trial.client == "fast" else moments.asked + cassette.end.at / 1000
    return Verdict(trial, lost, "; ".join(faults), _notice(trial, moments, noticed))


def _judge_gone(trial: Trial, it: Field, cassette: Cassette | None) -> Verdict:
    case, seen = trial.case, it.seen[trial.name]
    _, sent = trial.wire
    took = 0.0 if trial.finishing else _kept(it, it.moments[trial.name])
    faults = [f"the upstream was kept for {took * 1000:.0f} ms"] if took > SOON else []
    lost = 0
    if case.ending is None:
        faults += ["a file without a head"] if cassette is not None else []
    elif cassette is None:
        lost = len(dissect(seen)[1])
        faults += ["not on disk"] if lost or trial.finishing else []
    elif trial.finishing:
        lost = _lost(sent, cassette.body)
        faults += _cassette_faults(case, cassette)
    else:
        _, body, _ = dissect(seen)
        lost = _lost(body, cassette.body[: len(body)])
        faults += _partial_faults(case, sent, cassette)
    return Verdict(trial, lost, "; ".join(faults), took)


def _kept(it: Field, moments: Moments) -> float:
    """Seconds for which the upstream was kept after its client had left."""
    since = max(moments.left, moments.asked)
    if moments.released <= since:
        return 0.0
    return moments.released - since - it.stolen(since, moments.released)


def _partial_faults(case: Case, sent: bytes, cassette: Cassette) -> list[str]:
    faults = []
    if not sent.startswith(cassette.body):
        faults.append("bytes on disk that were never sent")
    if cassette.end.ending not in {Ending.CLIENT_GONE, case.ending}:
        faults.append(f"ending {cassette.end.ending}")
    if outcome(cassette).complete and not (case.whole and cassette.body == sent):
        faults.append("called complete")
    return faults


def _cassette_faults(case: Case, cassette: Cassette) -> list[str]:
    faults = []
    if cassette.end.ending is not case.ending:
        faults.append(f"ending {cassette.end.ending}, not {case.ending}")
    if outcome(cassette).complete is not case.whole:
        faults.append(f"outcome {outcome(cassette)}")
    return faults


def _refusal_faults(body: bytes, cassette: Cassette | None) -> list[str]:
    faults = ["a file without a head"] if cassette is not None else []
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError):
        return [*faults, f"no error of ours: {body!r}"]
    return faults if error["type"] == "upstream_failed" else [*faults, f"error {error}"]


def _notice(trial: Trial, moments: Moments, at: float) -> float:
    if not moments.broke:  # it was noticed before the upstream was done
        return 0.0
    return at - moments.broke - (IDLE if trial.case.end == "stall" else 0.0)


def _lost(sent: bytes, got: bytes) -> int:
    """Bytes of `sent` that are not in `got`; other bytes in their place count as lost, too."""
    same = next(
        (at for at, (mine, its) in enumerate(zip(sent, got, strict=False)) if mine != its),
        min(len(sent), len(got)),
    )
    return max(len(sent), len(got)) - same


def dissect(seen: Seen) -> tuple[int, bytes, How]:
    """Status, body, and how a response ended: `clean` only if its framing's end came."""
    head, _, rest = seen.data.partition(b"\r\n\r\n")
    if not head:
        return 0, b"", "fin" if seen.how == "fin" else "rst"
    how: How = "rst" if seen.how == "rst" else "fin"
    fields = head.lower()
    status = int(head.split(b" ", 2)[1])
    if b"\r\ntransfer-encoding: chunked" in fields:
        body, over = _unchunked(rest)
    elif b"\r\ncontent-length: " in fields:
        length = int(fields.split(b"\r\ncontent-length: ")[1].split(b"\r\n")[0])
        body, over = rest, len(rest) == length
    else:
        body, over = rest, False
    return status, body, "clean" if over and seen.how != "rst" else how


def _unchunked(data: bytes) -> tuple[bytes, bool]:
    """The body in chunks that may break off anywhere, and whether the last chunk came."""
    body = bytearray()
    at = 0
    while (line_end := data.find(b"\r\n", at)) != -1:
        start, length = line_end + 2, int(data[at:line_end], 16)
        at = start + length + 2
        if length == 0:
            return bytes(body), data[start:] == b"\r\n"
        body += data[start : start + length]
    return bytes(body), False
