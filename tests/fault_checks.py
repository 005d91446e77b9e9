"""The expected wire behaviour of each fault: one check function a fault, which yields problems."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from fault_matrix import LIVE_SOURCES, SILENCE_MS, Cell, codec_of
from llm_proxy.exchange import Framing
from llm_proxy.faults.kind import (
    STREAM_CODECS,
    AfterBytes,
    AfterEvents,
    AtEnd,
    AtEvent,
    AtFraction,
    AtTime,
)
from llm_proxy.faults.rule import FaultRule
from llm_proxy.framing import eventstream, sse
from llm_proxy.shell.running.settings import ModeName
from llm_proxy.turns import FinishReason, Refusal, ToolCall, Turn
from wire_capture import encode_chunk

Problems = Iterator[str]
FaultCheck = Callable[[Cell], Problems]

_UTF8_CONTINUATION: Final = range(0x80, 0xC0)
"""UTF-8 continuation bytes."""
_TIME_TOLERANCE: Final = 0.8
"""The accepted fraction of an expected time: clients and servers round."""


def difference(what: str, got: object, wanted: object) -> Problems:
    """Yield a problem where `got` is not `wanted`."""
    if got != wanted:
        yield f"{what} is {got!r:.400}, not {wanted!r:.400}"


# Locations in the body


def bytes_before(cell: Cell) -> bytes:
    """The bytes of the body before the location of the rule."""
    body, messages = cell.unfaulted.body, cell.messages
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
            index = next(n for n, message in enumerate(messages) if wanted.encode() in message)
            return b"".join(messages[:index])
        case AtEnd():
            return body
        case None:
            return messages[0] if cell.codec in STREAM_CODECS else body[: len(body) // 2]


def messages_before(cell: Cell) -> int:
    """The number of messages before the location of the rule."""
    location = cell.rule.location
    if isinstance(location, AfterEvents):
        return location.event_count
    return 1 if cell.codec in STREAM_CODECS else 0


def message_payload(cell: Cell, message: bytes) -> bytes:
    """The payload of a message, without its framing."""
    match cell.codec:
        case "sse":
            return sse.parse_event(message).data or b""
        case "eventstream":
            frame = eventstream.parse_frame(message)
            return b"" if frame is None else frame.payload
        case _:
            return message


def received_turn(cell: Cell) -> Turn:
    """The turn that the client decodes."""
    turns = cell.dialect.decode_response(cell.response(cell.wire.body))
    return turns[0] if turns else Turn(())


def unfaulted_turn(cell: Cell) -> Turn:
    """The turn of the response without a fault."""
    return cell.dialect.decode_response(cell.response(cell.unfaulted.body, cell.unfaulted))[0]


# Whole responses


def check_unchanged(cell: Cell) -> Problems:
    """The response equals the one without a fault."""
    yield from difference("the body", cell.wire.body, cell.unfaulted.body)
    yield from difference("the status", cell.wire.status, cell.unfaulted.status)
    yield from check_clean_end(cell)


def check_clean_end(cell: Cell) -> Problems:
    if not cell.wire.is_clean:
        yield f"the end is not clean: {cell.wire.ending}, {cell.wire.after_head[-60:]!r}"


def check_cut(cell: Cell, ending: str) -> Problems:
    """The body is cut at its location, and HTTP shows that it is incomplete."""
    if cell.rule.location is None:
        yield from difference("all that came", cell.wire.data, b"")
    else:
        yield from difference("the body", cell.wire.body, bytes_before(cell))
        yield from difference("the status", cell.wire.status, 200)
    yield from difference("the end", cell.wire.ending, ending)
    if cell.wire.is_clean:
        yield "the end looks clean"


def check_silent(cell: Cell) -> Problems:
    """The response is silent up to the longest silence, then closed."""
    yield from difference("the end", cell.wire.ending, "fin")
    if cell.wire.ended_at < SILENCE_MS * _TIME_TOLERANCE:
        yield f"the silence was over after {cell.wire.ended_at} ms"
    if cell.wire.is_clean:
        yield "the end looks clean"


def check_http_error(cell: Cell, status: int) -> Problems:
    """An HTTP error in the dialect's format; the provider got no request."""
    wire = cell.wire
    yield from difference("the status", wire.status, status)
    yield from difference("what it is", wire.header("content-type"), "application/json")
    yield from difference("x-should-retry", wire.header("x-should-retry"), None)
    yield from difference("the provider", cell.upstream_request_count, 0)
    yield from check_clean_end(cell)
    if received_turn(cell).failure is None:
        yield f"the body says nothing of an error: {wire.body[:200]!r}"


def check_incomplete(cell: Cell) -> Problems:
    """HTTP ends cleanly, but the dialect's stream is incomplete."""
    yield from check_clean_end(cell)
    if (
        cell.codec in STREAM_CODECS
        and cell.dialect.completeness(cell.response(cell.wire.body)).is_complete
    ):
        yield "the dialect takes it for whole"


# Each fault


def close(cell: Cell) -> Problems:
    yield from check_cut(cell, "fin")


def reset(cell: Cell) -> Problems:
    yield from check_cut(cell, "rst")


def truncate(cell: Cell) -> Problems:
    yield from difference("the body", cell.wire.body, bytes_before(cell))
    yield from check_incomplete(cell)


def half_event(cell: Cell) -> Problems:
    body, complete_part = cell.wire.body, bytes_before(cell)
    following = cell.messages[messages_before(cell)]
    if not (body.startswith(complete_part) and (complete_part + following).startswith(body)):
        yield f"the body is no beginning of the real one: {body[-80:]!r}"
    if not 0 < len(body) - len(complete_part) < len(following):
        yield f"{len(body) - len(complete_part)} bytes of {len(following)} came"
    yield from check_incomplete(cell)


def stall(cell: Cell) -> Problems:
    if "for=" not in cell.rule.text:
        yield from difference("the body", cell.wire.body, bytes_before(cell))
        yield from check_silent(cell)
        return
    yield from check_unchanged(cell)
    yield from _check_late(cell, 100)


def _check_late(cell: Cell, ms: float) -> Problems:
    """The bytes after the location come at least `ms` late.

    The pause itself is not measured: overdue bytes are sent at once, so it is shorter on a busy
    machine.
    """
    last = cell.wire.pieces[-1][0]
    if last < ms * _TIME_TOLERANCE:
        yield f"the last of it came after {last} ms, not {ms}"


def stall_keepalive(cell: Cell) -> Problems:
    received = cell.response(cell.wire.body).framed_messages
    extra = list(received)
    for message in cell.messages:
        extra.remove(message)
    yield from difference(
        "what is left", [message for message in received if message not in extra], [*cell.messages]
    )
    if len(extra) < 2:  # 200 ms, one every 50
        yield f"there were {len(extra)} signs of life"
    yield from check_clean_end(cell)


def drop(cell: Cell) -> Problems:
    index = messages_before(cell)
    yield from difference(
        "the body", cell.wire.body, b"".join(cell.messages[:index] + cell.messages[index + 1 :])
    )
    yield from check_clean_end(cell)


def duplicate(cell: Cell) -> Problems:
    index = messages_before(cell)
    yield from difference(
        "the body", cell.wire.body, b"".join(cell.messages[: index + 1] + cell.messages[index:])
    )
    yield from check_clean_end(cell)


def reorder(cell: Cell) -> Problems:
    index, messages = messages_before(cell), list(cell.messages)
    messages[index], messages[index + 1] = messages[index + 1], messages[index]
    yield from difference("the body", cell.wire.body, b"".join(messages))
    yield from check_clean_end(cell)


def slice_(cell: Cell) -> Problems:
    yield from check_unchanged(cell)
    chunks = cell.wire.chunks
    if cell.wire.is_chunked and max(map(len, chunks)) > 7:
        yield f"there is a write of {max(map(len, chunks))} bytes"
    if not cell.wire.is_chunked and len(cell.wire.pieces) < 2 and cell.entry.late_worst_ms < 20:
        yield "it came in one piece"
    if "size=1" in cell.rule.text and cell.wire.is_chunked:
        inside = [b for a, b in pairwise(chunks) if b[0] in _UTF8_CONTINUATION]
        if not inside:
            yield "no split falls inside a character"


def status(cell: Cell) -> Problems:
    yield from check_http_error(cell, 503)


def error_event(cell: Cell) -> Problems:
    if not cell.wire.body.startswith(bytes_before(cell)):
        yield "what came before is not as it was"
    yield from check_clean_end(cell)
    if received_turn(cell).failure is None:
        yield f"nothing says that it failed: {cell.wire.body[-200:]!r}"


def malformed_json(cell: Cell) -> Problems:
    message = yield from _check_one_message(cell)
    try:
        json.loads(message_payload(cell, message))
    except ValueError:
        return
    yield f"this is JSON: {message!r}"


def bad_utf8(cell: Cell) -> Problems:
    message = yield from _check_one_message(cell)
    try:
        message_payload(cell, message).decode()
    except UnicodeDecodeError:
        return
    yield f"this is UTF-8: {message!r}"


def _check_one_message(cell: Cell) -> Any:
    """Return the message after the location, which must be the only changed one."""
    index = messages_before(cell)
    received = cell.response(cell.wire.body).framed_messages
    yield from difference("how many came", len(received), len(cell.messages))
    pairs = zip(received, cell.messages, strict=False)
    changed = [n for n, (new, old) in enumerate(pairs) if new != old]
    yield from difference("what changed", changed, [index])
    yield from check_clean_end(cell)
    return received[index] if index < len(received) else b""


def refusal(cell: Cell) -> Problems:
    turn = received_turn(cell)
    has_only_refusals = {type(part) for part in turn.parts} == {Refusal}
    has_refusal_finish = turn.finish in {FinishReason.REFUSAL, FinishReason.CONTENT_FILTER}
    has_apology = turn.text.startswith("I'm sorry")
    if not (has_only_refusals or has_refusal_finish or has_apology):
        yield f"nothing refuses: {turn}"
    if unfaulted_turn(cell).text in turn.text:
        yield "the answer is still there"
    yield from _check_complete(cell)


def content_filter(cell: Cell) -> Problems:
    finishes = {
        FinishReason.CONTENT_FILTER,
        FinishReason.REFUSAL,
    }  # Anthropic has one stop reason for both
    yield from _check_shortened(cell, finishes)


def finish_length(cell: Cell) -> Problems:
    yield from _check_shortened(cell, {FinishReason.LENGTH})


def _check_shortened(cell: Cell, finishes: set[FinishReason]) -> Problems:
    turn, expected = received_turn(cell), unfaulted_turn(cell)
    if turn.finish not in finishes:
        yield f"it finished by {turn.finish}"
    if not expected.text.startswith(turn.text) or len(turn.text) >= len(expected.text):
        yield f"it says {turn.text!r}"
    yield from _check_complete(cell)


def bad_tool_call(cell: Cell) -> Problems:
    calls = [part for part in received_turn(cell).parts if isinstance(part, ToolCall)]
    if "how=json" in cell.rule.text or cell.rule.text == "bad-tool-call":
        valid_calls = [call for call in calls if not _is_invalid_json(call.arguments)]
    elif "how=name" in cell.rule.text:
        valid_calls = [call for call in calls if call.name == "look"]
    else:
        valid_calls = [call for call in calls if "city" in call.arguments]
    if valid_calls or not calls:
        yield f"these calls are none to refuse: {calls}"
    yield from check_clean_end(cell)


def _is_invalid_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return True
    return False


def rate_limit(cell: Cell) -> Problems:
    yield from check_http_error(cell, 429)
    wait_headers = [header for header in cell.wire.headers if header[0].startswith("retry-after")]
    yield from difference(
        "the wait", wait_headers, [("retry-after-ms", "50"), ("retry-after", "1")]
    )


def overloaded(cell: Cell) -> Problems:
    yield from check_http_error(cell, 529 if cell.framing == "events" else 503)


def latency(cell: Cell) -> Problems:
    yield from check_unchanged(cell)
    if cell.rule.location is not None:
        yield from _check_late(cell, 100)
    elif cell.wire.pieces[0][0] < 50 * _TIME_TOLERANCE:
        yield f"the first byte came after {cell.wire.pieces[0][0]} ms"


def hang(cell: Cell) -> Problems:
    yield from difference("all that came", cell.wire.data, b"")
    yield from difference("the provider", cell.upstream_request_count, 0)
    yield from check_silent(cell)


def hang_body(cell: Cell) -> Problems:
    yield from difference("the status", cell.wire.status, 200)
    yield from difference("what came behind the head", cell.wire.after_head, b"")
    yield from check_silent(cell)


def slow_close(cell: Cell) -> Problems:
    yield from check_unchanged(cell)
    wire = cell.wire
    if wire.ended_at < 50 * _TIME_TOLERANCE:
        yield f"the end came after {wire.ended_at} ms"


def bandwidth(cell: Cell) -> Problems:
    yield from check_unchanged(cell)
    expected_ms = len(cell.unfaulted.body) / 16_000 * 1000
    if cell.wire.ended_at < expected_ms * _TIME_TOLERANCE:
        yield f"{len(cell.unfaulted.body)} bytes came in {cell.wire.ended_at} ms"
    if cell.wire.is_chunked and max(map(len, cell.wire.chunks)) > 320:
        yield "there are pieces of more than 20 ms"


def coalesce(cell: Cell) -> Problems:
    yield from check_unchanged(cell)
    if not cell.wire.is_chunked:
        return
    first_part = b"" if cell.rule.location is None else bytes_before(cell)
    expected_writes = [cell.unfaulted.body[len(first_part) :]]
    if "events=2" in cell.rule.text:
        pairs = range(0, len(cell.messages), 2)
        expected_writes = [b"".join(cell.messages[start : start + 2]) for start in pairs]
    yield from difference(
        "the last writes", cell.wire.chunks[-len(expected_writes) :], expected_writes
    )


def html(cell: Cell) -> Problems:
    wire = cell.wire
    yield from difference("the status", wire.status, 200 if "200" in cell.rule.text else 502)
    yield from difference("what it is", wire.header("content-type"), "text/html")
    yield from difference("the provider", cell.upstream_request_count, 0)
    yield from check_clean_end(cell)
    if b"<html>" not in wire.body:
        yield f"this is no page: {wire.body!r}"


def empty(cell: Cell) -> Problems:
    yield from difference("the body", cell.wire.body, b"")
    yield from difference("the status", cell.wire.status, 200)
    kind = cell.unfaulted.header("content-type")
    yield from difference("what it is", cell.wire.header("content-type"), kind)
    yield from check_incomplete(cell)


def wrong_length(cell: Cell) -> Problems:
    wire = cell.wire
    declared = str(len(cell.unfaulted.body) + 100)
    yield from difference("the length", wire.header("content-length"), declared)
    yield from difference("the body", wire.after_head, cell.unfaulted.body)
    yield from difference("the end", wire.ending, "fin")


def malformed_chunk(cell: Cell) -> Problems:
    wire = cell.wire
    yield from difference("the body", wire.body, bytes_before(cell))
    yield from difference("the end", wire.ending, "fin")
    rest = wire.after_head.removeprefix(b"".join(map(encode_chunk, wire.chunks)))
    try:
        int(rest.partition(b"\r\n")[0], 16)
    except ValueError:
        return
    yield f"this is the size of a chunk: {rest!r}"


def bad_encoding(cell: Cell) -> Problems:
    yield from check_unchanged(cell)
    yield from difference("the coding", cell.wire.header("content-encoding"), "gzip")


def bom(cell: Cell) -> Problems:
    yield from difference("the body", cell.wire.body, b"\xef\xbb\xbf" + cell.unfaulted.body)
    yield from check_clean_end(cell)


def _check_complete(cell: Cell) -> Problems:
    yield from check_clean_end(cell)
    if not cell.dialect.completeness(cell.response(cell.wire.body)).is_complete:
        yield "the dialect does not take it for whole"


CHECKS: Final[Mapping[str, FaultCheck]] = {
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
"""The check of each fault, by name."""

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
"""Rules besides the example, by fault: also those that act in a body in one piece."""

_OLLAMA_NO_FINISH: Final = "ollama has no finish reason 'content_filter'"
SKIPS: Final[Mapping[tuple[str, str], str]] = {
    (
        "bad-tool-call,how=json",
        "ndjson",
    ): "how=json does not apply to this response: ollama sends tool arguments as an object, "
    "not as a JSON string",
    ("content-filter", "ndjson"): _OLLAMA_NO_FINISH,
}
"""Skip reasons that depend on the response itself, by fault and framing."""


_BODY_FRAMINGS: Final[Mapping[Framing, str]] = {
    "chunked": "a chunked body",
    "length": "a body with a Content-Length",
}


def expected_skip_reason(source: ModeName, framing_name: str, rule: FaultRule) -> str:
    """The expected reason why the fault is not injected; empty where it is injected."""
    kind, location, codec = rule.kind, rule.location, codec_of(framing_name)
    is_whole_body = codec not in STREAM_CODECS
    body_framing: Framing = "length" if is_whole_body else "chunked"
    if body_framing not in kind.allowed_framings:
        return f"{kind.name} does not apply to {_BODY_FRAMINGS[body_framing]}"
    if codec not in kind.allowed_codecs:
        body = "a body without events" if is_whole_body else f"a body in the format {codec}"
        return f"{kind.name} does not apply to {body}"
    needs_messages = isinstance(location, AtEvent) or (
        isinstance(location, AfterEvents) and location.event_count > 0
    )
    if is_whole_body and needs_messages:
        return "the body contains no events"
    if isinstance(location, AtFraction) and not is_whole_body and source in LIVE_SOURCES:
        return "fraction= requires a known body length"
    return SKIPS.get((rule.text, framing_name), SKIPS.get((kind.name, framing_name), ""))


def check_cell(cell: Cell) -> Problems:
    """The problems of a cell."""
    expected_reason = expected_skip_reason(cell.source, cell.framing, cell.rule)
    yield from difference("why it was skipped", cell.fault_record.skipped, expected_reason)
    if expected_reason or cell.fault_record.skipped:
        yield from check_unchanged(cell)
    else:
        yield from CHECKS[cell.rule.kind.name](cell)
