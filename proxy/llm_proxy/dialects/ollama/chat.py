"""Decodes and encodes the responses of Ollama's chats and completions, and errors.

    ( thinking | content | images | tool_calls )* done

A chat holds these fields in `message`, a completion beside `response`.  A stream is lines, of which
a response that does not stream is one.  A tool call is never split.  An error is a message, and in
streams of Ollama's cloud the HTTP status.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import orjson

from llm_proxy.dialects import json_api, response_encoding, wire
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.fragments import FragmentJoiner, fragment_output_chars
from llm_proxy.dialects.lenient_json import (
    Fields,
    first_integer,
    get_items,
    get_object,
    get_objects,
    get_string,
    get_text,
    parse_object,
    select_metadata,
    selected_fields,
    str_or_empty,
)
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import Errors, FinishReasons, UsageFields, WireFormat
from llm_proxy.errors import NotRepresentable
from llm_proxy.turns import (
    Failure,
    FinishReason,
    Json,
    Media,
    Part,
    Reasoning,
    Text,
    ToolCall,
    Turn,
    Usage,
)

CHAT: Final = "/api/chat"
GENERATE: Final = "/api/generate"

NDJSON_CONTENT_TYPE: Final = "application/x-ndjson"
"""The content type of a stream."""

SUCCESS: Final = "success"
"""The status that ends a transfer."""

_FINISH: Final = FinishReasons(
    {"stop": FinishReason.STOP, "length": FinishReason.LENGTH, SUCCESS: FinishReason.STOP},
    {FinishReason.STOP: "stop", FinishReason.LENGTH: "length"},
    stop_means_tool_calls=True,
)
"""`load` and `unload` are `OTHER`; so is a missing reason, as old servers send none."""

_USAGE: Final = UsageFields(
    {"input": ("prompt_eval_count",), "output": ("eval_count",)},
    required=("input", "output"),
    is_required=True,
)

_RESPONSE_FIELDS: Final = frozenset(("message", "response", "image", "done", "error", "status"))
"""A line with none of these fields is no turn and no transfer of Ollama's."""

_REMOTE_FIELDS: Final = ("remote_model", "remote_host")
"""The metadata that names a remote model and its host."""

_NS_PER_INPUT_TOKEN: Final = 1_000_000
_NS_PER_OUTPUT_TOKEN: Final = 10_000_000
_LOAD_NS: Final = 1_000_000
"""With the two rates above: the assumed speed of a machine, for turns without durations."""

_DURATION_FIELDS: Final = ("load_duration", "prompt_eval_duration", "eval_duration")
"""The metadata that holds durations in ns, which `total_duration` sums."""

_METADATA: Final = (*_REMOTE_FIELDS, "total_duration", *_DURATION_FIELDS)

_MESSAGE_ORDER: Final = (Reasoning, Text, Media, ToolCall)
"""The order of the fields of a message that does not stream."""

_TEXT_FIELDS: Final = {Text: "content", Reasoning: "thinking"}
"""The field of a message for each kind of text."""

ERRORS: Final = Errors(
    {
        400: Failure("invalid request"),
        401: Failure("unauthorized"),
        403: Failure("forbidden"),
        404: Failure("model not found"),
        429: Failure("too many requests"),
        500: Failure("internal server error"),
        503: Failure("server busy, please try again.  maximum pending requests exceeded"),
    }
)


def wire_format(path: str, *, stream: bool) -> WireFormat:
    """What a response on this path can hold.  Raises `NotRepresentable` where that is no turn."""
    if path not in (CHAT, GENERATE):
        raise NotRepresentable(f"ollama: cannot generate a response for {path}")
    return WireFormat(
        dialect="ollama",
        is_streamed=stream,
        parts=frozenset((Text, Reasoning, ToolCall, Media)),
        finish=_FINISH,
        usage=_USAGE,
        metadata=_METADATA,
        convert_part=_representable_part,
        has_object_arguments=True,
    )


def _representable_part(part: Part) -> Part | None:
    """The part; None for media that is no inline image."""
    if isinstance(part, Media) and not (part.base64 and part.media_type.startswith("image/")):
        return None
    return part


class LinesDecoder:
    """Decodes the lines of a chat or a completion, or the one document of a response."""

    def __init__(self) -> None:
        self._fragments = FragmentJoiner()
        self._done_line: Fields = {}
        self._has_lines = self._has_succeeded = False
        self._failure: Failure | None = None
        self._model = ""

    def feed(self, message: bytes) -> list[Part]:
        """Decode a line; one with none of Ollama's fields is skipped."""
        line = parse_object(message)
        if _RESPONSE_FIELDS.isdisjoint(line):
            return []
        self._has_lines = True
        self._has_succeeded = line.get("status") == SUCCESS
        self._model = self._model or get_text(line, "model")
        if line.get("done") is True:
            self._done_line = line
        if self._failure is None and (error := line.get("error")):
            failure = json_api.decode_failure(error)
            # Ollama's cloud adds the HTTP status.
            self._failure = replace(failure, code=failure.code or get_text(line, "status"))
        pieces: list[Part] = []
        for fragment, key in _decode_fragments(line):
            self._fragments.add_fragment(fragment, key)
            if json_api.is_piece(fragment):
                pieces.append(fragment)
        return pieces

    def turns(self) -> tuple[Turn, ...]:
        """The turn so far; none without a line of Ollama's.

        Ollama sends `stop` also where the model waits for tools; the turn has `TOOL_CALLS` then.
        """
        if not self._has_lines:
            return ()
        parts = self._fragments.joined_parts()
        raw = None  # of a response that has not ended
        if self._done_line:
            raw = get_text(self._done_line, "done_reason")
        elif self._has_succeeded:
            raw = SUCCESS
        turn = Turn(
            parts,
            finish=None
            if raw is None
            else _FINISH.decode(raw, awaits_client=wire.has_tool_calls(parts))
            or FinishReason.OTHER,
            finish_raw=raw or "",
            usage=_USAGE.decode(self._done_line),
            failure=self._failure,
            model=self._model,
            metadata=select_metadata(self._done_line, _METADATA),
        )
        return (turn,)


def line_output_chars(line: Fields) -> int:
    """The output characters that a line adds to a response."""
    return sum(fragment_output_chars(fragment) for fragment, _ in _decode_fragments(line))


def _decode_fragments(line: Fields) -> Iterator[tuple[Part, str | None]]:
    """The fragments of a line, each with its key for joining; a call is never split."""
    message = get_object(line, "message") or line
    if thought := get_string(message, "thinking"):
        yield Reasoning(thought), ""
    if text := get_string(message, "content") or get_string(line, "response"):
        yield Text(text), ""
    for image in (line.get("image"), *get_items(message, "images")):
        if image_base64 := str_or_empty(image):
            yield Media("image/*", base64=image_base64), None
    for call in decode_tool_calls(message):
        yield call, None


def decode_tool_calls(message: Fields) -> Iterator[ToolCall]:
    """The tool calls of a message in a response or a request; old servers have no ids."""
    for call in get_objects(message, "tool_calls"):
        function = get_object(call, "function")
        yield ToolCall(
            id=get_text(call, "id"),
            name=get_text(function, "name"),
            arguments=get_text(function, "arguments"),
        )


def encode_turn(turn: Turn, path: str, context: EncodeContext, *, stream: bool) -> DialectResponse:
    """A stream of lines, or one document.  A stream that fails has no metadata."""
    if turn.failure is not None:
        turn = replace(turn, metadata=())
    if stream:
        lines = map(encode_line, _encode_lines(turn, path, context))
        return response_encoding.stream_response("ndjson", NDJSON_CONTENT_TYPE, lines)
    message: Document = {}
    for part in sorted(turn.parts, key=lambda part: _MESSAGE_ORDER.index(type(part))):
        _append_part(message, part, len(message.get("tool_calls", ())))
    if path == GENERATE and len(message.get("images", ())) > 1:
        raise NotRepresentable(
            "ollama supports only one image per response of /api/generate without streaming"
        )
    return response_encoding.json_response(
        {
            **_envelope(turn, context),
            **_message_fields(message, path),
            **_final_line_fields(turn),
        }
    )


def _encode_lines(turn: Turn, path: str, context: EncodeContext) -> Iterator[Document]:
    """The lines; the nanoseconds of `created_at` are the line's number."""
    envelope = _envelope(turn, context)
    second = envelope["created_at"].partition(".")[0]
    number = 0
    for number, message in enumerate(_encode_deltas(turn, context), 1):
        envelope["created_at"] = f"{second}.{number:09}Z"
        yield {**envelope, **_message_fields(message, path), "done": False}
    if turn.failure is not None:
        failure = wire.with_default_error_message(turn.failure)
        status = wire.http_status_code(failure)
        yield {**error_document(failure.message), **({"status": int(status)} if status else {})}
        return
    envelope["created_at"] = f"{second}.{number + 1:09}Z"
    yield {**envelope, **_message_fields({}, path), **_final_line_fields(turn)}


def _envelope(turn: Turn, context: EncodeContext) -> Document:
    """The fields of every line."""
    return {
        "model": turn.model,
        **selected_fields(turn.metadata, _REMOTE_FIELDS),
        "created_at": rfc3339_timestamp(context.created_unix_s),
    }


def _encode_deltas(turn: Turn, context: EncodeContext) -> Iterator[Document]:
    call_count = 0
    for part in turn.parts:
        if isinstance(part, Text | Reasoning):
            for piece in context.split_text(part.text):
                yield {_TEXT_FIELDS[type(part)]: piece}
        else:
            message: Document = {}
            _append_part(message, part, call_count)
            yield message
            call_count += isinstance(part, ToolCall)


def _append_part(message: Document, part: Part, call_index: int) -> None:
    """Add the part to the message; the arguments of a call are JSON text already."""
    match part:
        case Text(text=text) | Reasoning(text=text):
            message[_TEXT_FIELDS[type(part)]] = message.get(_TEXT_FIELDS[type(part)], "") + text
        case Media(base64=image_base64):
            message.setdefault("images", []).append(image_base64)
        case ToolCall():
            arguments = orjson.Fragment(part.arguments.encode())
            function = {"index": call_index, "name": part.name, "arguments": arguments}
            message.setdefault("tool_calls", []).append({"id": part.id, "function": function})
        case _:
            pass


def _message_fields(message: Document, path: str) -> Document:
    """The fields of a message, placed as this path requires; a completion holds one image."""
    content = message.pop("content", "")
    if path == CHAT:
        return {"message": {"role": "assistant", "content": content, **message}}
    if images := message.pop("images", ()):
        [message["image"]] = images
    return {"response": content, **message}


def _final_line_fields(turn: Turn) -> Document:
    """The fields of the last line: finish reason, durations and token counts."""
    given = dict(turn.metadata)
    usage = turn.usage or Usage()
    estimates_ns: Document = {
        "load_duration": _LOAD_NS,
        "prompt_eval_duration": max(usage.input or 0, 1) * _NS_PER_INPUT_TOKEN,
        "eval_duration": max(usage.output or 0, 1) * _NS_PER_OUTPUT_TOKEN,
    }
    total_ns = sum(
        first_integer(given.get(name), estimates_ns[name]) or 0 for name in _DURATION_FIELDS
    )
    durations: dict[str, Json] = {"total_duration": total_ns, **estimates_ns}
    return {
        **done_fields(turn.finish_raw),
        **{name: given.get(name, duration_ns) for name, duration_ns in durations.items()},
        **_USAGE.encode(usage),
    }


def done_fields(reason: str) -> Document:
    """The fields that end a response, and its reason."""
    return {"done": True, "done_reason": reason}


def encode_line(document: Document) -> bytes:
    """One line of a stream, with its line end."""
    return response_encoding.single_line_json(document) + b"\n"


def rfc3339_timestamp(seconds: int) -> str:
    """A Unix time in s as RFC 3339 text in UTC, with nanoseconds."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.000000000Z"


def error_response(
    status: int, failure: Failure, retry_after_s: float | None = None
) -> DialectResponse:
    """An HTTP error.  Ollama sends no headers for limits or request ids."""
    headers = response_encoding.retry_headers(retry_after_s, "Retry-After")
    error = ERRORS.with_defaults(Failure(failure.message or failure.type), status)
    return response_encoding.json_response(error_document(error.message), headers, status)


def error_document(message: str) -> Document:
    """The JSON body of an error."""
    return {"error": message}
