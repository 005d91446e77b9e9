"""How exactly paces are kept, beside a bare loop of absolute deadlines in the same run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from socket import socket
from statistics import fmean, median
from typing import Final

import server_processes
import socket_client
from result_table import Row, median_p95

from llm_proxy.actions import Begin, Send, Wait
from llm_proxy.cassette import Cassette, CassetteWriter, Meta, StoredRequest, read_cassette
from llm_proxy.exchange import Ending, Read, ResponseHead
from llm_proxy.matching import KEY_RULES, request_key
from llm_proxy.pacing import parse_pace
from llm_proxy.pacing.cassette_player import play_cassette
from llm_proxy.pacing.timing import seeded_chance
from llm_proxy.routing import PACE_HEADER
from llm_proxy.shell.library.library import Library

SHIPPED: Final = Path(__file__).parents[2] / "cassettes"

ABOVE: Final = 0.3
"""ms: how much later a piece may come, on average, than from the bare loop."""
DRIFT: Final = 5.0
"""ms: how much later, after its plan, the end of a long stream may come than its beginning."""
SPEED: Final = 1.0
"""Per cent: how far 4x may be off a quarter of the time."""

_PACES: Final = ("profile:claude-sonnet-4-6", "50tps", "ttft=100..300ms,gap=5..30ms")
_RECORDED: Final = ("recorded", "4x")
_LONG: Final = 10_000
_EDGE: Final = 100
"""Events at either end of a long stream, whose median is compared."""
_SESSION: Final = "default"


@dataclass(frozen=True, slots=True)
class _Plan:
    """A request, and when each piece of its answer is due."""

    cassette: Cassette
    head: float
    due: tuple[float, ...]
    pieces: tuple[bytes, ...]

    def question(self, port: int, path: str = "", *more: str) -> bytes:
        """The request, at its own path or another, with more headers."""
        asked = self.cassette.request
        target = path or (f"{asked.path}?{asked.query}" if asked.query else asked.path)
        lines = [f"{asked.method} {target} HTTP/1.1", f"Host: 127.0.0.1:{port}"]
        lines += [*(f"{name}: {value}" for name, value in asked.headers), *more]
        lines += [f"Content-Length: {len(asked.body)}", "", ""]
        return "\r\n".join(lines).encode("latin-1") + asked.body

    def as_json(self) -> list[tuple[float, str]]:
        """For the bare loop."""
        pieces = zip(self.due, self.pieces, strict=True)
        return [(self.head, ""), *((at, data.decode("latin-1")) for at, data in pieces)]


@dataclass(frozen=True, slots=True)
class _Late:
    """How late each piece of each answer came, in ms."""

    replay: list[list[float]]
    bare: list[list[float]]


def rows(folder: Path, library: Path, *, quick: bool) -> Iterator[Row]:
    """The figures, of the streams of a library."""
    copytree(library, folder / "cassettes")
    count = 4 if quick else 12
    found = list(_streams(folder / "cassettes"))
    streams = found[:: max(1, len(found) // count)][:count]
    for pace in _PACES:
        yield _above(folder, streams, pace, 1 if quick else 3)
    events = 1000 if quick else _LONG
    long = _long(folder / "long" / "cassettes", events)
    yield _drift(folder / "long", long)
    yield _four_times(folder / "long", long)


def _streams(library: Path) -> Iterator[Cassette]:
    """Streams with enough to say, the first take of each request."""
    for path in sorted(library.rglob("*-1.jsonl")):
        cassette = read_cassette(str(path), path.read_bytes())
        is_whole = cassette.codec == "whole" or cassette.head.framing != "chunked"
        if not is_whole and len(cassette.messages) > 20 and cassette.end.ending is Ending.CLEAN:
            yield cassette


def _planned(cassette: Cassette, pace: str, ordinal: int) -> _Plan:
    """What the product is to do, computed as it does."""
    rolls = seeded_chance(0, _SESSION, cassette.meta.key, ordinal)
    head = waited = 0.0
    due: list[float] = []
    pieces: list[bytes] = []
    for action in play_cassette(cassette, parse_pace(pace), rolls):
        match action:
            case Wait(moment):
                waited = moment
            case Begin():
                head = waited
            case Send(data):
                due.append(waited)
                pieces.append(data)
            case _:
                pass
    return _Plan(cassette, head, tuple(due), tuple(pieces))


def _lateness(ports: Sequence[int], plans: Sequence[_Plan]) -> list[list[list[float]]]:
    """How late each piece came, in ms, of each answer, from each of these servers.

    All are asked for everything at the same time, answers 10 ms apart, so that whatever else the
    machine does falls on all of them.  The first is llm-proxy; others know plans by their numbers.
    """
    asked: list[tuple[int, _Plan]] = []
    socks: list[socket] = []
    questions: list[bytes] = []
    for number, plan in enumerate(plans):
        ways = list(enumerate(ports))
        for way, port in ways if number % 2 else reversed(ways):
            asked.append((way, plan))
            socks.append(socket_client.connect(port))
            questions.append(plan.question(port, f"/{number}" if way else ""))
    answers = socket_client.ask_together(socks, questions, apart=0.01)
    for sock in socks:
        sock.close()
    late: list[list[list[float]]] = [[] for _ in ports]
    for (way, plan), answer in zip(asked, answers, strict=True):
        late[way].append([at - due for at, due in zip(answer.chunks(), plan.due, strict=True)])
    return late


def _load(port: int, plans: Sequence[_Plan], pace: str) -> None:
    """Have a replay read the recordings, which it does when they are first asked for."""
    quick = "instant" if pace in _RECORDED else f"{pace},max-gap=1ms"
    for plan in plans:
        with socket_client.connect(port) as sock:
            socket_client.ask(sock, plan.question(port, "", f"{PACE_HEADER}: {quick}"))


def _compared(folder: Path, rounds: Sequence[Sequence[_Plan]], pace: str) -> _Late:
    """How late the pieces of each answer came, from both at the same time."""
    late = _Late([], [])
    with server_processes.llm_proxy(folder, "replay", "--pace", pace) as replay:
        _load(replay, rounds[0], pace)
        for plans in rounds:
            path = folder / "plans.json"
            path.write_text(json.dumps({f"/{at}": it.as_json() for at, it in enumerate(plans)}))
            with server_processes.server("plans", str(path)) as bare:
                ours, theirs = _lateness((replay, bare), plans)
            late.replay.extend(ours)
            late.bare.extend(theirs)
    return late


def _above(folder: Path, streams: Sequence[Cassette], pace: str, rounds: int) -> Row:
    """How much later the pieces of an answer come than those of the same answer from the bare loop.

    That is the median of all answers: whatever else a machine does makes some answers begin late,
    now here, now there.
    """
    planned = [[_planned(it, pace, ordinal) for it in streams] for ordinal in range(2, rounds + 2)]
    late = _compared(folder, planned, pace)
    errors = [fmean(map(abs, it)) for it in late.replay]
    of_bare = [fmean(map(abs, it)) for it in late.bare]
    above = median(ours - theirs for ours, theirs in zip(errors, of_bare, strict=True))
    beside = {"replay mean": fmean(errors), "bare loop mean": fmean(of_bare)}
    beside |= median_p95(errors, "replay") | median_p95(of_bare, "bare loop")
    return Row("pace", f"above the bare loop at {pace}", above, "ms", beside, ABOVE)


def _drift(folder: Path, long: Cassette) -> Row:
    """How much later the last events of a long stream are than its first."""
    late = _compared(folder, [[_planned(long, "recorded", 2)]], "recorded")
    ours, theirs = (
        abs(median(it[-_EDGE:]) - median(it[:_EDGE])) for [it] in (late.replay, late.bare)
    )
    name = f"drift over {len(long.messages) - 1} events"
    return Row("pace", name, ours, "ms", {"bare loop": theirs}, DRIFT)


def _four_times(folder: Path, long: Cassette) -> Row:
    """How far the time of a long stream at 4x is off a quarter of its time."""
    took: dict[str, float] = {}
    for pace in _RECORDED:
        plan = _planned(long, pace, 1)
        with server_processes.llm_proxy(folder, "replay", "--pace", pace) as port:
            _load(port, [plan], pace)
            [[late]] = _lateness((port,), [plan])
        took[pace] = late[-1] + plan.due[-1]
    ratio = took["recorded"] / took["4x"]
    off = abs(ratio / 4 - 1) * 100
    return Row("pace", "4x is off a quarter of the time by", off, "%", {"ratio": ratio}, SPEED)


def _long(library: Path, events: int) -> Cassette:
    """A recording of so many events, a millisecond apart."""
    body = b'{"model":"bench","stream":true,"messages":[{"role":"user","content":"count"}]}'
    asked = StoredRequest("POST", "/v1/chat/completions", "", (), body)
    meta = Meta("bench", "now", "openai-chat", "openai", "bench", _SESSION,
    request_key("openai", asked),
                KEY_RULES, 1)  # fmt: skip
    writer = CassetteWriter("sse")
    head = ResponseHead(200, "OK", (("Content-Type", "text/event-stream"),), "chunked")
    lines = [writer.encode_opening(meta, asked), writer.encode_head(head, 0.0)]
    for number in range(1, events + 1):
        said = json.dumps({"choices": [{"index": 0, "delta": {"content": f"{number} "}}]})
        lines.append(writer.encode_read(Read(float(number), f"data: {said}\n\n".encode())))
    lines.append(writer.encode_read(Read(float(events), b"data: [DONE]\n\n")))
    lines.append(writer.encode_ending(Ending.CLEAN, float(events)))
    path = Library(library).path_for_take(meta, asked, 1)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(lines))
    return read_cassette(str(path), path.read_bytes())
