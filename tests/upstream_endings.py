"""Upstreams that break off in every way: cases, and the bytes of one trial of each.

Used by `test_endings.py` and by `scripts/torture`, with `trial_runner.py`, which runs them, and
`trial_verdicts.py`, which says what became of them.  A trial is one exchange through a recording
proxy.  Its request names the case, the client and a seed; everything random is rolled from
these, so both ends know what crosses the wire, and a trial can be run again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import Final, Literal

from llm_proxy.exchange import Ending
from raw_http import post

_LETTERS: Final = 'abc defg\u00e9\u00df\u2028\u65e5\u672c\U0001f600\\"\t'

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
            return roll.choice(
                [b"SSH-2.0-OpenSSH_9.2\r\n", b"\x15\x03\x01\x00\x02\x02", b"hello\n"]
            )
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
    framed = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces(body, roll))
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


def parse(name: str) -> Trial:
    """The trial of that name."""
    case, client, finishing, seed = name.split("/")
    clients: dict[str, Client] = {"fast": "fast", "slow": "slow", "gone": "gone"}
    by_name = {case_.name: case_ for case_ in CASES}
    return Trial(by_name[case], clients[client], int(seed), finishing == "1")
