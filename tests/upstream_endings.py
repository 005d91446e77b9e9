"""Every way in which an upstream's response can end: the cases, and the bytes of a trial of each.

Used by `test_endings.py` and by `scripts/torture`, with `trial_runner.py`, which runs trials, and
`trial_verdicts.py`, which checks their results.  A trial is one exchange through a recording
proxy.  Its request names the case, the client and a seed; all randomness is derived from these, so
both ends know the bytes on the wire, and a trial can be repeated.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from random import Random
from typing import Final, Literal

from llm_proxy.exchange import Ending
from raw_http import build_http_request

_LETTERS: Final = 'abc defg\u00e9\u00df\u2028\u65e5\u672c\U0001f600\\"\t'

Client = Literal["fast", "slow", "gone"]
ClientEnding = Literal["clean", "fin", "rst"]


@dataclass(frozen=True, slots=True)
class Case:
    """One way in which an upstream's response ends, and the expected outcome."""

    name: str
    body_framing: Literal["chunked", "length", "close", "none"]
    """How the body is delimited; `none`: the connection ends before the head."""
    upstream_end: Literal[
        "clean", "fin", "rst", "stall", "bad-size", "bad-chunk-end", "mid-chunk", "open"
    ]
    stored_ending: Ending | None
    """The ending that is stored; None where nothing is stored."""
    client_ending: ClientEnding
    """How the response ends for the client."""
    status: int = 200
    is_complete: bool = False
    """Whether the whole stream is sent, so that the outcome is complete."""

    @property
    def stalls(self) -> bool:
        """Whether the upstream goes silent."""
        return self.upstream_end == "stall"


CASES: Final = (
    Case("chunked, clean", "chunked", "clean", Ending.CLEAN, "clean", is_complete=True),
    Case("chunked, fin", "chunked", "fin", Ending.FIN, "fin"),
    Case("chunked, rst", "chunked", "rst", Ending.RST, "rst"),
    Case("chunked, fin in a chunk", "chunked", "mid-chunk", Ending.FIN, "fin"),
    Case("chunked, malformed size", "chunked", "bad-size", Ending.MALFORMED, "rst"),
    Case("chunked, malformed end", "chunked", "bad-chunk-end", Ending.MALFORMED, "rst"),
    Case("chunked, stall", "chunked", "stall", Ending.STALLED, "rst"),
    Case("length, clean", "length", "clean", Ending.CLEAN, "clean", is_complete=True),
    Case("length, fin", "length", "fin", Ending.FIN, "fin"),
    Case("length, rst", "length", "rst", Ending.RST, "rst"),
    Case("length, stall", "length", "stall", Ending.STALLED, "rst"),
    Case("close, clean", "close", "clean", Ending.CLEAN, "fin", is_complete=True),
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
    """One exchange of a case, a kind of client and a seed."""

    case: Case
    client: Client
    seed: int
    reads_to_end: bool = False
    """Whether the proxy reads the response to its end although the client has left."""

    @property
    def name(self) -> str:
        """A unique name, from which the trial can be parsed."""
        return f"{self.case.name}/{self.client}/{self.reads_to_end:d}/{self.seed}"

    def random_for(self, purpose: str) -> Random:
        """The random numbers of this trial for one purpose."""
        return Random(f"{self.name}/{purpose}")

    @property
    def request(self) -> bytes:
        """The raw request that the client sends."""
        message = {"role": "user", "content": self.name}
        body = {"model": self.case.name, "stream": True, "messages": [message]}
        return build_http_request(
            "/v1/chat/completions",
            json.dumps(body).encode(),
            "Content-Type: application/json",
            "Connection: close",
        )

    @property
    def upstream_output(self) -> tuple[bytes, bytes]:
        """The bytes that the upstream writes, and the response body in them."""
        case, rng = self.case, self.random_for("wire")
        if case.body_framing == "none":
            return _output_without_head(case, rng), b""
        stream = _chat_stream(rng)
        cut_at = len(stream) if case.is_complete else _cut_position(stream, rng)
        return _response_bytes(case, stream, cut_at, rng)


def _output_without_head(case: Case, rng: Random) -> bytes:
    match case.upstream_end:
        case "mid-chunk":
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            return head[: rng.randrange(1, len(head))]
        case "open":
            return rng.choice([b"SSH-2.0-OpenSSH_9.2\r\n", b"\x15\x03\x01\x00\x02\x02", b"hello\n"])
        case _:
            return b""


def _chat_stream(rng: Random) -> bytes:
    """A complete stream of chat completion chunks, with characters of every UTF-8 width."""
    events = []
    for number in range(rng.choice([1, 3, 10, 40])):
        text = "".join(rng.choices(_LETTERS, k=rng.choice([1, 5, 30, 300])))
        choice = {"index": 0, "delta": {"content": f"{number} {text}"}}
        payload = json.dumps({"choices": [choice]}, ensure_ascii=False)
        events.append(f"data: {payload}\n\n".encode())
    return b"".join([*events, b"data: [DONE]\n\n"])


def _cut_position(stream: bytes, rng: Random) -> int:
    """A random position at which a stream breaks off, always before it is complete."""
    return rng.randrange(0 if rng.random() < 0.2 else 1, len(stream) - len(b"data: [DONE]\n\n"))


def _response_bytes(case: Case, stream: bytes, cut_at: int, rng: Random) -> tuple[bytes, bytes]:
    body = stream[:cut_at]
    head = [b"HTTP/1.1 200 OK", b"Content-Type: text/event-stream"]
    match case.body_framing:
        case "length":
            head.append(b"Content-Length: %d" % len(stream))
            framed = body
        case "close":
            head.append(b"Connection: close")
            framed = body
        case _:
            head.append(b"Transfer-Encoding: chunked")
            framed, body = _chunked_body(case, body, rng)
    return b"\r\n".join([*head, b"", framed]), body


def _chunked_body(case: Case, body: bytes, rng: Random) -> tuple[bytes, bytes]:
    framed = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in random_pieces(body, rng))
    match case.upstream_end:
        case "clean":
            return framed + b"0\r\n\r\n", body
        case "mid-chunk":
            return framed + b"40\r\nhalf a chunk", body + b"half a chunk"
        case "bad-size":
            return framed + rng.choice([b"zz\r\n", b"-1\r\n", b"\r\n\r\n"]), body
        case "bad-chunk-end":
            return framed + b"5\r\nhelloXX5\r\nhello\r\n", body + b"hello"
        case _:
            return framed, body


def random_pieces(data: bytes, rng: Random) -> list[bytes]:
    """`data` in pieces of random sizes, none of them empty."""
    largest = rng.choice([1, 7, 64, 1000, 20_000])
    largest = max(largest, len(data) // 10)
    chunks: list[bytes] = []
    while data:
        size = rng.randint(1, largest)
        chunks.append(data[:size])
        data = data[size:]
    return chunks


def parse_trial(name: str) -> Trial:
    """The trial with this `name`."""
    case, client, finishing, seed = name.split("/")
    clients: dict[str, Client] = {"fast": "fast", "slow": "slow", "gone": "gone"}
    by_name = {case_.name: case_ for case_ in CASES}
    return Trial(by_name[case], clients[client], int(seed), finishing == "1")
