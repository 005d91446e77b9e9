"""What each fault is to look like on the wire: a checker a fault, which gives what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from fault_matrix import SILENCE, Cell
from llm_proxy.exchange import Framing
from llm_proxy.faults.kind import STREAMS
from llm_proxy.faults.location import AfterBytes, AfterEvents, AtEvent, AtFraction, AtTime
from llm_proxy.framing import eventstream, sse
from llm_proxy.turns import Finish, Refusal, ToolCall, Turn
from wire_capture import framed

Problems = Iterator[str]
Check = Callable[[Cell], Problems]

_CHARACTER: Final = range(0x80, 0xC0)
"""Bytes of UTF-8 within a character."""
_ROUGHLY: Final = 0.8
"""Of a time: clients and servers round."""


def differs(what: str, got: object, wanted: object) -> Problems:
    """What is said where something is not as it should be."""
    if got != wanted:
        yield f"{what} is {got!r:.400}, not {wanted!r:.400}"


# What stands where


def before(cell: Cell) -> bytes:
    """The bytes of the body that go out before the place of the rule."""
    body, messages = cell.truth.body, cell.messages
    match cell.rule.location:
        case AfterEvents(events):
            return b"".join(messages[:events])
        case AfterBytes(size):
            return body[:size]
        case AtFraction(share):
            return body[: round(len(body) * share)]
        case AtTime(ms):
            return b"" if ms == 0 else body
        case AtEvent(type=wanted):
            at = next(n for n, it in enumerate(messages) if wanted.encode() in it)
            return b"".join(messages[:at])
        case None:
            return messages[0] if cell.codec in STREAMS else body[: len(body) // 2]


def number(cell: Cell) -> int:
    """How many messages come before the place."""
    place = cell.rule.location
    if isinstance(place, AfterEvents):
        return place.events
    return 1 if cell.codec in STREAMS else 0


def content(cell: Cell, message: bytes) -> bytes:
    """What a message carries, without its framing."""
    match cell.codec:
        case "sse":
            return sse.parse_event(message).data or b""
        case "eventstream":
            frame = eventstream.parse_frame(message)
            return b"" if frame is None else frame.payload
        case _:
            return message


def told(cell: Cell) -> Turn:
    """What the client reads."""
    turns = cell.dialect.decode(cell.response(cell.wire.body))
    return turns[0] if turns else Turn(())


def meant(cell: Cell) -> Turn:
    """What the answer says without a fault."""
    return cell.dialect.decode(cell.response(cell.truth.body, cell.truth))[0]


# Answers as a whole


def untouched(cell: Cell) -> Problems:
    """The answer as it is without a fault."""
    yield from differs("the body", cell.wire.body, cell.truth.body)
    yield from differs("the status", cell.wire.status, cell.truth.status)
    yield from clean(cell)


def clean(cell: Cell) -> Problems:
    if not cell.wire.is_clean:
        yield f"the end is not clean: {cell.wire.ended}, {cell.wire.after[-60:]!r}"


def cut(cell: Cell, how: str) -> Problems:
    """Broken off at its place, and HTTP tells so."""
    if cell.rule.location is None:
        yield from differs("all that came", cell.wire.data, b"")
    else:
        yield from differs("the body", cell.wire.body, before(cell))
        yield from differs("the status", cell.wire.status, 200)
    yield from differs("the end", cell.wire.ended, how)
    if cell.wire.is_clean:
        yield "the end looks clean"


def silent(cell: Cell) -> Problems:
    """Silent to the longest silence, and then closed."""
    yield from differs("the end", cell.wire.ended, "fin")
    if cell.wire.ended_at < SILENCE * _ROUGHLY:
        yield f"the silence was over after {cell.wire.ended_at} ms"
    if cell.wire.is_clean:
        yield "the end looks clean"


def refused(cell: Cell, status: int) -> Problems:
    """An HTTP error in the dialect's own shape, and nobody was asked for the answer."""
    wire = cell.wire
    yield from differs("the status", wire.status, status)
    yield from differs("what it is", wire.header("content-type"), "application/json")
    yield from differs("x-should-retry", wire.header("x-should-retry"), None)
    yield from differs("the provider", cell.asked, 0)
    yield from clean(cell)
    if told(cell).failure is None:
        yield f"the body says nothing of an error: {wire.body[:200]!r}"


def unfinished(cell: Cell) -> Problems:
    """A clean end of HTTP, and none of what the provider says."""
    yield from clean(cell)
    if (
        cell.codec in STREAMS
        and cell.dialect.completeness(cell.response(cell.wire.body)).is_complete
    ):
        yield "the dialect takes it for whole"


# Each fault


def close(cell: Cell) -> Problems:
    yield from cut(cell, "fin")


def reset(cell: Cell) -> Problems:
    yield from cut(cell, "rst")


def truncate(cell: Cell) -> Problems:
    yield from differs("the body", cell.wire.body, before(cell))
    yield from unfinished(cell)


def half_event(cell: Cell) -> Problems:
    body, whole = cell.wire.body, before(cell)
    following = cell.messages[number(cell)]
    if not (body.startswith(whole) and (whole + following).startswith(body)):
        yield f"the body is no beginning of the real one: {body[-80:]!r}"
    if not 0 < len(body) - len(whole) < len(following):
        yield f"{len(body) - len(whole)} bytes of {len(following)} came"
    yield from unfinished(cell)


def stall(cell: Cell) -> Problems:
    if "for=" not in cell.rule.text:
        yield from differs("the body", cell.wire.body, before(cell))
        yield from silent(cell)
        return
    yield from untouched(cell)
    yield from _late(cell, 100)


def _late(cell: Cell, ms: float) -> Problems:
    """What lies behind the place comes that late.

    No pause is measured: what is overdue goes at once, so it is shorter on a busy machine.
    """
    last = cell.wire.pieces[-1][0]
    if last < ms * _ROUGHLY:
        yield f"the last of it came after {last} ms, not {ms}"


def stall_keepalive(cell: Cell) -> Problems:
    came = cell.response(cell.wire.body).messages
    extra = list(came)
    for it in cell.messages:
        extra.remove(it)
    yield from differs(
        "what is left", [item for item in came if item not in extra], [*cell.messages]
    )
    if len(extra) < 2:  # 200 ms, every 50
        yield f"there were {len(extra)} signs of life"
    yield from clean(cell)


def drop(cell: Cell) -> Problems:
    at = number(cell)
    yield from differs(
        "the body", cell.wire.body, b"".join(cell.messages[:at] + cell.messages[at + 1 :])
    )
    yield from clean(cell)


def duplicate(cell: Cell) -> Problems:
    at = number(cell)
    yield from differs(
        "the body", cell.wire.body, b"".join(cell.messages[: at + 1] + cell.messages[at:])
    )
    yield from clean(cell)


def reorder(cell: Cell) -> Problems:
    at, messages = number(cell), list(cell.messages)
    messages[at], messages[at + 1] = messages[at + 1], messages[at]
    yield from differs("the body", cell.wire.body, b"".join(messages))
    yield from clean(cell)


def slice_(cell: Cell) -> Problems:
    yield from untouched(cell)
    chunks = cell.wire.chunks
    if cell.wire.is_chunked and max(map(len, chunks)) > 7:
        yield f"there is a write of {max(map(len, chunks))} bytes"
    if not cell.wire.is_chunked and len(cell.wire.pieces) < 2 and cell.entry.late_worst_ms < 20:
        yield "it came in one piece"
    if "size=1" in cell.rule.text and cell.wire.is_chunked:
        inside = [b for a, b in pairwise(chunks) if b[0] in _CHARACTER]
        if not inside:
            yield "no split falls inside a character"


def status(cell: Cell) -> Problems:
    yield from refused(cell, 503)


def error_event(cell: Cell) -> Problems:
    if not cell.wire.body.startswith(before(cell)):
        yield "what came before is not as it was"
    yield from clean(cell)
    if told(cell).failure is None:
        yield f"nothing says that it failed: {cell.wire.body[-200:]!r}"


def malformed_json(cell: Cell) -> Problems:
    changed = yield from _one_message(cell)
    try:
        json.loads(content(cell, changed))
    except ValueError:
        return
    yield f"this is JSON: {changed!r}"


def bad_utf8(cell: Cell) -> Problems:
    changed = yield from _one_message(cell)
    try:
        content(cell, changed).decode()
    except UnicodeDecodeError:
        return
    yield f"this is UTF-8: {changed!r}"


def _one_message(cell: Cell) -> Any:
    """The message behind the place, which is the only one that is another."""
    at = number(cell)
    came = cell.response(cell.wire.body).messages
    yield from differs("how many came", len(came), len(cell.messages))
    pairs = zip(came, cell.messages, strict=False)
    changed = [n for n, (new, old) in enumerate(pairs) if new != old]
    yield from differs("what changed", changed, [at])
    yield from clean(cell)
    return came[at] if at < len(came) else b""


def refusal(cell: Cell) -> Problems:
    turn = told(cell)
    says = {type(part) for part in turn.parts} == {Refusal}
    ends = turn.finish in {Finish.REFUSAL, Finish.CONTENT_FILTER}
    apologises = turn.text.startswith("I'm sorry")
    if not (says or ends or apologises):
        yield f"nothing refuses: {turn}"
    if meant(cell).text in turn.text:
        yield "the answer is still there"
    yield from _whole(cell)


def content_filter(cell: Cell) -> Problems:
    finishes = {Finish.CONTENT_FILTER, Finish.REFUSAL}  # Anthropic has one word for both
    yield from _shortened(cell, finishes)


def finish_length(cell: Cell) -> Problems:
    yield from _shortened(cell, {Finish.LENGTH})


def _shortened(cell: Cell, finishes: set[Finish]) -> Problems:
    turn, true = told(cell), meant(cell)
    if turn.finish not in finishes:
        yield f"it finished by {turn.finish}"
    if not true.text.startswith(turn.text) or len(turn.text) >= len(true.text):
        yield f"it says {turn.text!r}"
    yield from _whole(cell)


def bad_tool_call(cell: Cell) -> Problems:
    calls = [part for part in told(cell).parts if isinstance(part, ToolCall)]
    if "how=json" in cell.rule.text or cell.rule.text == "bad-tool-call":
        good = [item for item in calls if not _is_no_json(item.arguments)]
    elif "how=name" in cell.rule.text:
        good = [item for item in calls if item.name == "look"]
    else:
        good = [item for item in calls if "city" in item.arguments]
    if good or not calls:
        yield f"these calls are none to refuse: {calls}"
    yield from clean(cell)


def _is_no_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return True
    return False


def rate_limit(cell: Cell) -> Problems:
    yield from refused(cell, 429)
    waits = [header for header in cell.wire.headers if header[0].startswith("retry-after")]
    yield from differs("the wait", waits, [("retry-after-ms", "50"), ("retry-after", "1")])


def overloaded(cell: Cell) -> Problems:
    yield from refused(cell, 529 if cell.framing == "events" else 503)


def latency(cell: Cell) -> Problems:
    yield from untouched(cell)
    if cell.rule.location is not None:
        yield from _late(cell, 100)
    elif cell.wire.pieces[0][0] < 50 * _ROUGHLY:
        yield f"the first byte came after {cell.wire.pieces[0][0]} ms"


def hang(cell: Cell) -> Problems:
    yield from differs("all that came", cell.wire.data, b"")
    yield from differs("the provider", cell.asked, 0)
    yield from silent(cell)


def hang_body(cell: Cell) -> Problems:
    yield from differs("the status", cell.wire.status, 200)
    yield from differs("what came behind the head", cell.wire.after, b"")
    yield from silent(cell)


def slow_close(cell: Cell) -> Problems:
    yield from untouched(cell)
    wire = cell.wire
    if wire.ended_at < 50 * _ROUGHLY:
        yield f"the end came after {wire.ended_at} ms"


def bandwidth(cell: Cell) -> Problems:
    yield from untouched(cell)
    wanted = len(cell.truth.body) / 16_000 * 1000
    if cell.wire.ended_at < wanted * _ROUGHLY:
        yield f"{len(cell.truth.body)} bytes came in {cell.wire.ended_at} ms"
    if cell.wire.is_chunked and max(map(len, cell.wire.chunks)) > 320:
        yield "there are pieces of more than 20 ms"


def coalesce(cell: Cell) -> Problems:
    yield from untouched(cell)
    if not cell.wire.is_chunked:
        return
    first = b"" if cell.rule.location is None else before(cell)
    behind = [cell.truth.body[len(first) :]]
    if "events=2" in cell.rule.text:
        pairs = range(0, len(cell.messages), 2)
        behind = [b"".join(cell.messages[at : at + 2]) for at in pairs]
    yield from differs("the last writes", cell.wire.chunks[-len(behind) :], behind)


def html(cell: Cell) -> Problems:
    wire = cell.wire
    yield from differs("the status", wire.status, 200 if "200" in cell.rule.text else 502)
    yield from differs("what it is", wire.header("content-type"), "text/html")
    yield from differs("the provider", cell.asked, 0)
    yield from clean(cell)
    if b"<html>" not in wire.body:
        yield f"this is no page: {wire.body!r}"


def empty(cell: Cell) -> Problems:
    yield from differs("the body", cell.wire.body, b"")
    yield from differs("the status", cell.wire.status, 200)
    kind = cell.truth.header("content-type")
    yield from differs("what it is", cell.wire.header("content-type"), kind)
    yield from unfinished(cell)


def wrong_length(cell: Cell) -> Problems:
    wire = cell.wire
    declared = str(len(cell.truth.body) + 100)
    yield from differs("the length", wire.header("content-length"), declared)
    yield from differs("the body", wire.after, cell.truth.body)
    yield from differs("the end", wire.ended, "fin")


def malformed_chunk(cell: Cell) -> Problems:
    wire = cell.wire
    yield from differs("the body", wire.body, before(cell))
    yield from differs("the end", wire.ended, "fin")
    rest = wire.after.removeprefix(b"".join(map(framed, wire.chunks)))
    try:
        int(rest.partition(b"\r\n")[0], 16)
    except ValueError:
        return
    yield f"this is the size of a chunk: {rest!r}"


def bad_encoding(cell: Cell) -> Problems:
    yield from untouched(cell)
    yield from differs("the coding", cell.wire.header("content-encoding"), "gzip")


def bom(cell: Cell) -> Problems:
    yield from differs("the body", cell.wire.body, b"\xef\xbb\xbf" + cell.truth.body)
    yield from clean(cell)


def _whole(cell: Cell) -> Problems:
    yield from clean(cell)
    if not cell.dialect.completeness(cell.response(cell.wire.body)).is_complete:
        yield "the dialect does not take it for whole"


CHECKS: Final[Mapping[str, Check]] = {
    "bad-encoding": bad_encoding,
    "bad-tool-call": bad_tool_call,
    "bad-utf8": bad_utf8,
    "bandwidth": bandwidth,
    "bom": bom,
    "close": close,
    "coalesce": coalesce,
    "content-filter": content_filter,
    "drop": drop,
    "duplicate": duplicate,
    "empty": empty,
    "error-event": error_event,
    "finish-length": finish_length,
    "half-event": half_event,
    "hang": hang,
    "hang-body": hang_body,
    "html": html,
    "latency": latency,
    "malformed-chunk": malformed_chunk,
    "malformed-json": malformed_json,
    "overloaded": overloaded,
    "rate-limit": rate_limit,
    "refusal": refusal,
    "reorder": reorder,
    "reset": reset,
    "slice": slice_,
    "slow-close": slow_close,
    "stall": stall,
    "stall-keepalive": stall_keepalive,
    "status": status,
    "truncate": truncate,
    "wrong-length": wrong_length,
}
"""By the name of the fault."""

VARIANTS: Final[Mapping[str, tuple[str, ...]]] = {
    "bad-tool-call": ("bad-tool-call,how=json", "bad-tool-call,how=missing"),
    "bad-utf8": ("bad-utf8",),
    "coalesce": ("coalesce", "coalesce,events=2"),
    "content-filter": ("content-filter",),
    "finish-length": ("finish-length",),
    "hang": ("hang",),
    "hang-body": ("hang-body",),
    "html": ("html,code=200",),
    "latency": ("latency,bytes=120,by=100ms",),
    "malformed-chunk": ("malformed-chunk,bytes=120",),
    "malformed-json": ("malformed-json",),
    "close": ("close", "close,bytes=120"),
    "reset": ("reset", "reset,bytes=120", "reset,fraction=50%"),
    "slice": ("slice,size=1",),
    "stall": ("stall,bytes=120", "stall,bytes=120,for=100ms"),
    "truncate": ("truncate", "truncate,bytes=120"),
}
"""More than the example, by the name of the fault: what shows it in a whole body too."""

_NO_WORD: Final = "ollama has no word for an answer that ends so"
SKIPS: Final[Mapping[tuple[str, str], str]] = {
    ("bad-tool-call,how=json", "ndjson"): "ollama tells arguments as an object, which is JSON",
    ("content-filter", "ndjson"): _NO_WORD,
}
"""Why a fault has no meaning in an answer that only looking at it tells: by fault and framing."""


_DELIMITED: Final[Mapping[Framing, str]] = {
    "chunked": "a body that comes in chunks",
    "length": "a body of a declared length",
}


def skip(cell: Cell) -> str:
    """Why nothing is to be injected; empty where something is."""
    kind, place = cell.rule.kind, cell.rule.location
    whole = cell.codec not in STREAMS
    http: Framing = "chunked" if cell.truth.is_chunked else "length"
    if http not in kind.needs_messages:
        return f"{kind.name} has no meaning in {_DELIMITED[http]}"
    if cell.codec not in kind.allowed_bodies:
        body = "a whole body" if whole else f"a body of {cell.codec}"
        return f"{kind.name} has no meaning in {body}"
    needs = isinstance(place, AtEvent) or (isinstance(place, AfterEvents) and place.events > 0)
    if whole and needs:
        return "the body does not come in messages"
    if isinstance(place, AtFraction) and not whole and cell.source in ("record", "auto"):
        return "fraction= needs a body whose length is known beforehand"
    return SKIPS.get((cell.rule.text, cell.framing), SKIPS.get((kind.name, cell.framing), ""))


def check(cell: Cell) -> Problems:
    """What is wrong with a cell."""
    wanted = skip(cell)
    yield from differs("why it was skipped", cell.injected.skipped, wanted)
    if wanted or cell.injected.skipped:
        yield from untouched(cell)
    else:
        yield from CHECKS[cell.rule.kind.name](cell)
