"""Decodes and encodes the responses of the Responses API.

    created [queued] in_progress item* audio ( completed | incomplete | cancelled | error failed )

Every event of a stream has a sequence number.  The first ones hold the response without output,
which mostly echoes the request; the last one holds the whole response, as a document does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from urllib.parse import parse_qs

from llm_proxy.dialects import json_api, lenient_json, response_encoding
from llm_proxy.dialects.base import Completeness, DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.fragments import FragmentJoiner
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import errors, output_item_events, output_items, shared_format
from llm_proxy.dialects.openai.output_item_events import OutputItemsAssembler, TypedEvent
from llm_proxy.dialects.openai.provider_variants import provider_variant
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import FinishReasons, UsageFields, WireFormat
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.framing import sse
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import (
    Failure,
    FinishReason,
    Media,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)

COMPACT_PATH: Final = "/responses/compact"
"""The end of the path that compacts a conversation."""

_STORED_RESPONSE_PATH: Final = re.compile(r"/responses/(?P<id>[^/]+)(?:/cancel)?\Z")
_SEQUENCE_NUMBER: Final = re.compile("[0-9]{1,9}")

_PENDING_STATUSES: Final = ("queued", "in_progress")
"""Statuses of a response that is not finished."""
_FINISH_BY_STATUS: Final = {
    "completed": FinishReason.STOP,
    "incomplete": FinishReason.OTHER,
    "failed": FinishReason.ERROR,
    "cancelled": FinishReason.OTHER,
    **dict.fromkeys(_PENDING_STATUSES, FinishReason.PAUSED),
}
_FINAL_STATUSES: Final = tuple(
    status for status in _FINISH_BY_STATUS if status not in _PENDING_STATUSES
)
_FINISH_BY_INCOMPLETE_REASON: Final = {
    "max_output_tokens": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
}
"""The meaning of each `incomplete_details.reason`."""
_SENT_FINISH: Final = {
    FinishReason.STOP: "completed",
    FinishReason.LENGTH: "max_output_tokens",
    FinishReason.CONTENT_FILTER: "content_filter",
    FinishReason.ERROR: "failed",
}

_USAGE_PATHS: Final = {
    "input": ("input_tokens",),
    "cache_read": ("input_tokens_details", "cached_tokens"),
    "cache_write": ("input_tokens_details", "cache_write_tokens"),
    "output": ("output_tokens",),
    "reasoning": ("output_tokens_details", "reasoning_tokens"),
    "total": ("total_tokens",),
}
_USAGE: Final = UsageFields(_USAGE_PATHS, required=tuple(_USAGE_PATHS), is_required=True)

_METADATA: Final = (
    "service_tier",
    "previous_response_id",
    "conversation",
    "moderation",
    "content_filters",
    "tool_usage",
)
"""The fields of a response that are a turn's metadata."""

_RAW_REASONING_PROVIDERS: Final = frozenset(("bedrock", "deepseek", "ollama", "openrouter", "vllm"))
"""Providers whose models return raw reasoning text instead of summaries."""

_FINAL_EVENTS: Final = frozenset(f"response.{status}" for status in _FINAL_STATUSES)
_RESPONSE_EVENTS: Final = frozenset(
    ("response.created", *(f"response.{status}" for status in _FINISH_BY_STATUS))
)
"""The types of events that hold a response."""
_AUDIO_EVENT: Final = "response.audio"
_TRANSCRIPT_EVENT: Final = "response.audio.transcript"

_MAX_TYPE_CHARS: Final = 60
"""Characters of an event type that fit into a completeness reason."""

_ECHOED_DEFAULTS: Final[Document] = {
    "background": False,
    "frequency_penalty": 0.0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "prompt_cache_retention": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""The request fields that a response echoes, with their defaults."""


def requests_stream(request: Request) -> bool:
    """Whether the body, or the query of a GET, sets `stream`."""
    if request.method == "GET":
        return parse_qs(request.query).get("stream") == ["true"]
    return shared_format.requests_stream(request)


@dataclass(frozen=True, slots=True)
class ResponseOptions:
    """The options of a request that shape its response."""

    is_streamed: bool
    request_body: Fields
    stored_response_id: str
    """The ID of the response that is fetched or cancelled; empty where one is created."""
    resume_after_sequence: int
    """The sequence number of the last event that the client has; -1 for a whole stream."""
    is_compaction: bool
    """Whether the request compacts a conversation."""

    @property
    def is_background(self) -> bool:
        """Whether the response is a background one, or is fetched or cancelled by its ID."""
        return bool(self.stored_response_id) or self.request_body.get("background") is True

    @property
    def partial_image_count(self) -> int:
        """How many partial images precede an image: 0 to 3."""
        counts = (
            tool.get("partial_images")
            for tool in lenient_json.array_objects(self.request_body.get("tools"))
        )
        return min(max((lenient_json.first_integer(value) or 0 for value in counts), default=0), 3)


def response_options(request: Request) -> ResponseOptions:
    """The response options of a request."""
    is_compaction = request.path.endswith(COMPACT_PATH)
    stored = None if is_compaction else _STORED_RESPONSE_PATH.search(request.path)
    [after, *_] = parse_qs(request.query).get("starting_after", [""])
    return ResponseOptions(
        requests_stream(request) and not is_compaction,
        lenient_json.parse_object(request.body),
        stored["id"] if stored else "",
        int(after) if _SEQUENCE_NUMBER.fullmatch(after) else -1,
        is_compaction,
    )


def wire_format(
    options: ResponseOptions, turns: Sequence[Turn], context: EncodeContext
) -> WireFormat:
    """What the response to such a request can hold of these turns.

    A turn with a `Refusal` has the status `completed`.
    """
    has_refusal = any(isinstance(part, Refusal) for turn in turns for part in turn.parts)
    may_be_pending = options.is_background and not options.is_streamed
    return WireFormat(
        dialect="openai-responses",
        is_streamed=options.is_streamed,
        parts=frozenset((Text, Reasoning, Refusal, ToolCall, ToolResult, Media)),
        finish=FinishReasons(
            {
                raw: finish
                for raw, finish in (_FINISH_BY_STATUS | _FINISH_BY_INCOMPLETE_REASON).items()
                if not (options.is_streamed and raw in _PENDING_STATUSES)
            },
            {
                **_SENT_FINISH,
                **({FinishReason.REFUSAL: "completed"} if has_refusal else {}),
                **({FinishReason.PAUSED: "in_progress"} if may_be_pending else {}),
            },
            stop_means_tool_calls=True,
        ),
        usage=_USAGE,
        metadata=() if options.is_compaction else _METADATA,
        convert_part=partial(
            output_items.representable_part,
            has_audio=options.is_streamed,
            reasoning_type=output_items.REASONING_TEXT
            if context.provider in _RAW_REASONING_PROVIDERS
            else output_items.SUMMARY,
        ),
        has_signatures=True,
        is_sent_empty=output_items.is_sent_empty,
        merged=frozenset(),
        id_prefix="resp_",
        awaits_client=_awaits_tool_results,
    )


def _awaits_tool_results(parts: Sequence[Part]) -> bool:
    return output_items.awaits_tool_results(output_items.encode_items(parts))


def completeness(response: DialectResponse) -> Completeness:
    """Complete at the event with the whole response, or at an error in the stream."""
    if response.codec_name != "sse" or not json_api.succeeded(response.head):
        return json_api.completeness(response)
    last_type = ""
    for kind, event in _typed_events(reversed(response.framed_messages)):
        if failure := _decode_failure(kind, event):
            return json_api.completed_by_error(failure)
        if kind in _FINAL_EVENTS:
            return Completeness(is_complete=True, reason=kind)
        last_type = last_type or kind
    reason = "no event" if json_api.joined_body(response).strip() else "empty stream"
    if last_type:
        reason = f"no response.completed after {' '.join(last_type.split())[:_MAX_TYPE_CHARS]}"
    return Completeness(is_complete=False, reason=reason)


def decode_response(response: DialectResponse) -> tuple[Turn, ...]:
    """One turn, or none where the body holds no response."""
    if not json_api.succeeded(response.head):
        return (Turn((), failure=json_api.decode_http_error(response)),)
    if response.codec_name != "sse":
        return _decode_document(lenient_json.parse_object(json_api.joined_body(response)))
    assembler, audio = OutputItemsAssembler(), FragmentJoiner()
    document: Fields = {}
    status = ""
    failure: Failure | None = None
    for kind, event in _typed_events(response.framed_messages):
        failure = failure or _decode_failure(kind, event)
        delta = lenient_json.str_or_empty(event.get("delta"))
        if kind in _RESPONSE_EVENTS:
            document = lenient_json.object_fields(event.get("response")) or document
            status = kind.removeprefix("response.") if kind in _FINAL_EVENTS else status
        elif kind == f"{_AUDIO_EVENT}.delta":
            audio.add_fragment(Media("audio/*", base64=delta))
        elif kind == f"{_TRANSCRIPT_EVENT}.delta":
            audio.add_fragment(Media("audio/*", transcript=delta))
        else:
            assembler.feed(kind, event)
    output = lenient_json.array_objects(document.get("output")) or assembler.assembled_items()
    return _decode_turns(document, status, output, failure, audio.joined_parts())


def _decode_document(body: Fields) -> tuple[Turn, ...]:
    """The turn of a response that is no stream; a background one may be pending."""
    body = shared_format.wrap_error_object(body)
    failure = json_api.decode_failure(body["error"]) if body.get("error") else None
    is_response = body.get("object") == "response" and not body.get("deleted")
    document = body if is_response or "output" in body else {}
    output = lenient_json.array_objects(document.get("output"))
    status = lenient_json.value_as_text(document.get("status"))
    return _decode_turns(document, status, output, failure)


def _decode_turns(
    document: Fields,
    status: str,
    output: Sequence[Fields],
    failure: Failure | None,
    audio: tuple[Part, ...] = (),
) -> tuple[Turn, ...]:
    """The turn of a response with this final status; none where there is nothing."""
    items = [part for item in output for part in output_items.decode_item(item)]
    if not (items or audio or document or status or failure):
        return ()
    raw = status
    finish = _FINISH_BY_STATUS.get(status, FinishReason.OTHER)
    details = lenient_json.object_fields(document.get("incomplete_details"))
    if status == "incomplete" and (reason := details.get("reason")):
        raw = lenient_json.value_as_text(reason)
        finish = _FINISH_BY_INCOMPLETE_REASON.get(raw, FinishReason.OTHER)
    if finish is FinishReason.STOP and output_items.awaits_tool_results(output):
        finish = FinishReason.TOOL_CALLS
    turn = Turn(
        (*items, *audio),
        finish=finish if status else None,
        finish_raw=raw,
        usage=_USAGE.decode(lenient_json.object_fields(document.get("usage"))),
        failure=failure,
        id=lenient_json.value_as_text(document.get("id")),
        model=lenient_json.value_as_text(document.get("model")),
        metadata=lenient_json.select_metadata(document, _METADATA),
    )
    return (turn,)


def _typed_events(messages: Iterable[bytes]) -> Iterator[tuple[str, Fields]]:
    """Type and fields of each event; a bare response sent as a stream counts as its last event."""
    for message in messages:
        event = shared_format.decode_event(message)
        if event.get("object") == "response":
            status = lenient_json.value_as_text(event.get("status"))
            yield f"response.{status}", {"response": dict(event)}
        elif event:
            kind = lenient_json.value_as_text(event.get("type"))
            yield kind or parse_event(message).event_type, event


def _decode_failure(kind: str, event: Fields) -> Failure | None:
    """The error of an event: nested, flat, or in the failed response; None without one."""
    error = event.get("error")
    if kind == "error" and not error:
        error = dict(event)
    elif kind == "response.failed":
        error = error or lenient_json.object_fields(event.get("response")).get("error")
    if not error:
        return None
    if isinstance(error, dict) and error.get("type") == "error":
        error = {name: value for name, value in error.items() if name != "type"}
    return json_api.decode_failure(error)


def encode_turn(turn: Turn, options: ResponseOptions, context: EncodeContext) -> DialectResponse:
    """The response with a prepared turn: a stream, a document, or a compacted conversation.

    Raises `NotRepresentable` for a second audio part.
    """
    if sum(map(output_items.is_audio, turn.parts)) > 1:
        raise NotRepresentable("openai-responses says one sound in an answer")
    raw = "failed" if turn.failure else turn.finish_raw
    is_status = raw in _FINAL_STATUSES or turn.finish is FinishReason.PAUSED
    status = "completed" if options.is_compaction else raw if is_status else "incomplete"
    output = output_items.encode_items_with_ids(turn.parts, context)
    if output and status != "completed" and output[-1].get("status") == "completed":
        output[-1]["status"] = "in_progress" if status in _PENDING_STATUSES else "incomplete"
    initial: Document = {
        "id": options.stored_response_id or turn.id,
        "object": "response",
        "created_at": context.created_unix_s,
        "status": None,
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "model": turn.model,
        "output": [],
        **_echoed_request_fields(options.request_body),
        "usage": None,
        **_response_metadata(turn, options.request_body),
    }
    failure = turn.failure and _failure_with_type_and_code(turn.failure, context)
    final = {
        **initial,
        "status": status,
        "completed_at": context.created_unix_s if status == "completed" else None,
        "error": failure and {"code": failure.code, "message": failure.message},
        "incomplete_details": None if is_status else {"reason": raw},
        "output": output,
        "usage": None if failure else _USAGE.encode(turn.usage),
    }
    headers = errors.common_response_headers(context)
    if options.is_compaction:
        names = ("id", "object", "created_at", "output", "usage")
        final = {**final, "object": "response.compaction"}
        return response_encoding.json_response({name: final[name] for name in names}, headers)
    if not options.is_streamed:
        return response_encoding.json_response(final, headers)
    events = enumerate(_encode_events(turn, initial, final, failure, options, context))
    messages = (
        sse.encode_event(
            response_encoding.single_line_json({"type": kind, "sequence_number": number, **fields}),
            kind,
        )
        for number, (kind, fields) in events
        if number > options.resume_after_sequence
    )
    return response_encoding.stream_response(
        "sse", shared_format.EVENT_STREAM_CONTENT_TYPE, messages, headers
    )


def _encode_events(
    turn: Turn,
    initial: Document,
    final: Document,
    failure: Failure | None,
    options: ResponseOptions,
    context: EncodeContext,
) -> Iterator[TypedEvent]:
    """The events of a stream; if it fails, the last item stays open."""
    queued = ("queued",) if options.request_body.get("background") is True else ()
    statuses = (*queued, "in_progress")
    for kind, status in zip(("created", *statuses), (statuses[0], *statuses), strict=True):
        yield f"response.{kind}", {"response": {**initial, "status": status}}
    output = final["output"]
    for index, item in enumerate(output):
        is_complete = failure is None or index < len(output) - 1
        for kind, fields in output_item_events.encode_item_events(
            item, context.split_text, options.partial_image_count, is_complete=is_complete
        ):
            yield kind, {"output_index": index, **fields}
    for audio in turn.parts:
        if not isinstance(audio, Media) or not output_items.is_audio(audio):
            continue
        if audio.base64:
            yield f"{_AUDIO_EVENT}.delta", {"delta": audio.base64}
        yield f"{_AUDIO_EVENT}.done", {}
        for piece in context.split_text(audio.transcript):
            yield f"{_TRANSCRIPT_EVENT}.delta", {"delta": piece}
        yield f"{_TRANSCRIPT_EVENT}.done", {}
    if failure is not None:
        variant = provider_variant(context.provider)
        yield "error", {"error": errors.error_fields(failure, variant)}
    yield f"response.{final['status']}", {"response": final}


def _failure_with_type_and_code(failure: Failure, context: EncodeContext) -> Failure:
    """An error with a type and a code, as clients expect; `error` does not count as a type."""
    failure = replace(failure, type="" if failure.type == "error" else failure.type)
    variant = provider_variant(context.provider)
    failure = errors.with_status_defaults(errors.ERRORS.status(failure), failure, variant)
    return replace(failure, code=failure.code or failure.type)


def _response_metadata(turn: Turn, request_body: Fields) -> Document:
    """The metadata of a response; some fields default to those of the request."""
    tier = request_body.get("service_tier")
    conversation = request_body.get("conversation")
    is_id = isinstance(conversation, str) and conversation
    fields: Fields = {
        "service_tier": "default" if tier == "auto" else tier,
        "previous_response_id": request_body.get("previous_response_id"),
        "conversation": {"id": conversation} if is_id else conversation,
        **dict(turn.metadata),
    }
    return dict(lenient_json.select_metadata(fields, _METADATA))


def _echoed_request_fields(body: Fields) -> Document:
    """The request's fields over their defaults; tools without credentials, as at OpenAI."""
    echoed = _ECHOED_DEFAULTS | dict(lenient_json.select_metadata(body, _ECHOED_DEFAULTS))
    for name in ("reasoning", "text"):  # objects, of which a request may have some fields
        if isinstance(echoed[name], dict):
            echoed[name] = _ECHOED_DEFAULTS[name] | echoed[name]
    tools = lenient_json.array_objects(echoed["tools"])
    credentials = ("authorization", "headers")
    echoed["tools"] = [
        {name: value for name, value in tool.items() if name not in credentials} for tool in tools
    ]
    return echoed
