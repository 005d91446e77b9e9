"""The dialect `openai-responses`: typed events about items, and the complete response at the end.

    created [queued] in_progress item* audio ( completed | incomplete | cancelled | error failed )

Every event of a stream has a sequence number.  The first ones hold the response without output,
which mostly echoes the request; the last one holds the whole response, as a document does, or is an
`error`, flat at OpenAI and nested at Azure and gateways.  There is no `[DONE]`; the one that
OpenRouter sends proves nothing.

Nothing is stored here: fetching, cancelling or deleting a response fails with 404, as OpenAI does
for a response of another account.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final
from urllib.parse import parse_qs, unquote

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import estimates_and_fakes, json_api, response_encoding
from llm_proxy.dialects.base import (
    Completeness,
    ConvertedResponseTurns,
    DialectResponse,
    MetadataNames,
)
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.fragments import FragmentJoiner
from llm_proxy.dialects.lenient_json import (
    Fields,
    array_objects,
    first_integer,
    get_object,
    get_objects,
    get_string,
    get_text,
    parse_object,
    select_metadata,
    selected_fields,
)
from llm_proxy.dialects.openai import (
    family,
    output_item_events,
    output_items,
    responses_requests,
)
from llm_proxy.dialects.openai.family import VARIANT_BY_PROVIDER, provider_variant
from llm_proxy.dialects.openai.output_item_events import OutputItemsAssembler, TypedEvent
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import FinishReasons, UsageFields, WireFormat
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.framing import sse
from llm_proxy.turns import (
    Failure,
    FinishReason,
    Json,
    Media,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)

_PATH_END_BY_METHOD: Final = {
    "POST": re.compile(r"/responses(?:/compact|/input_tokens|/[^/]+/cancel)?\Z"),
    "GET": re.compile(r"/responses/[^/]+(?:/input_items)?\Z"),
    "DELETE": re.compile(r"/responses/[^/]+\Z"),
}
"""The ends of the dialect's paths, by method."""
_TURN_PATH_END: Final = re.compile(r"/responses(?:/compact)?\Z")
"""The ends of the paths that create a turn."""
_COMPACT_PATH: Final = "/responses/compact"
"""The end of the path that compacts a conversation."""
_INPUT_TOKENS_PATH: Final = "/responses/input_tokens"
"""The end of the path of the token count endpoint."""
_STORED_RESPONSE_PATH: Final = re.compile(
    r"/responses/(?!compact\Z)(?P<id>[^/]+)(?:/cancel|/input_items)?\Z"
)
_SEQUENCE_NUMBER: Final = re.compile("[0-9]{1,9}")

_COUNTED_FIELDS: Final = ("instructions", "input", "tools", "text")
"""The fields of a request whose strings are counted."""
_UNCOUNTED_FIELDS: Final = frozenset(
    ("type", "role", "id", "call_id", "status", "image_url", "file_data")
)
"""Fields whose strings the model does not read as text."""
_MAX_DEPTH: Final = 32

_PENDING_STATUSES: Final = ("queued", "in_progress")
"""Statuses of a response that is not finished."""
_FINISH_BY_FINAL_STATUS: Final = {
    "completed": FinishReason.STOP,
    "incomplete": FinishReason.OTHER,
    "failed": FinishReason.ERROR,
    "cancelled": FinishReason.OTHER,
}
_FINISH: Final = FinishReasons(
    {
        **_FINISH_BY_FINAL_STATUS,
        **dict.fromkeys(_PENDING_STATUSES, FinishReason.PAUSED),
        "max_output_tokens": FinishReason.LENGTH,
        "content_filter": FinishReason.CONTENT_FILTER,
    },
    {
        FinishReason.STOP: "completed",
        FinishReason.LENGTH: "max_output_tokens",
        FinishReason.CONTENT_FILTER: "content_filter",
        FinishReason.ERROR: "failed",
    },
    stop_means_tool_calls=True,
)
"""Statuses of a response, and the `incomplete_details.reason` of an incomplete one."""

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

_FINAL_EVENTS: Final = frozenset(f"response.{status}" for status in _FINISH_BY_FINAL_STATUS)
_RESPONSE_EVENTS: Final = _FINAL_EVENTS | {
    f"response.{status}" for status in ("created", *_PENDING_STATUSES)
}
"""The types of events that hold a response."""
_AUDIO_EVENT: Final = "response.audio"
_TRANSCRIPT_EVENT: Final = "response.audio.transcript"
_AUDIO_DELTA: Final = f"{_AUDIO_EVENT}.delta"
_TRANSCRIPT_DELTA: Final = f"{_TRANSCRIPT_EVENT}.delta"

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


class _ResponseDecoder:
    """Decodes the events of a stream, or the document of a body."""

    def __init__(self, *, streamed: bool) -> None:
        self._is_streamed = streamed
        self._assembler, self._audio = OutputItemsAssembler(), FragmentJoiner()
        self._document: Fields = {}
        self._status = ""
        self._failure: Failure | None = None

    def feed(self, message: bytes) -> list[Part]:
        """Decode a message; a call is complete with its item."""
        if not self._is_streamed:
            return self._feed_document(message)
        pieces: list[Part] = []
        for kind, event in _typed_events([message]):
            self._failure = self._failure or _decode_failure(kind, event)
            if kind in _RESPONSE_EVENTS:
                self._document = get_object(event, "response") or self._document
                if kind in _FINAL_EVENTS:
                    self._status = kind.removeprefix("response.")
            elif kind == _AUDIO_DELTA:
                self._audio.add_fragment(Media("audio/*", base64=get_string(event, "delta")))
            elif kind == _TRANSCRIPT_DELTA:
                self._audio.add_fragment(Media("audio/*", transcript=get_string(event, "delta")))
            else:
                self._assembler.feed(kind, event)
                pieces += output_item_events.readable_pieces(kind, event)
        return pieces

    def _feed_document(self, message: bytes) -> list[Part]:
        body = family.wrap_error_object(parse_object(message))
        if error := body.get("error"):
            self._failure = json_api.decode_failure(error)
        is_response = body.get("object") == "response" and not body.get("deleted")
        self._document = body if is_response or "output" in body else {}
        self._status = get_text(self._document, "status")
        return [part for turn in self.turns() for part in turn.parts if json_api.is_piece(part)]

    def turns(self) -> tuple[Turn, ...]:
        """One turn, or none without a response."""
        document = self._document
        output = get_objects(document, "output") or self._assembler.assembled_items()
        items = [part for item in output for part in output_items.decode_item(item)]
        parts = (*items, *self._audio.joined_parts())
        if not (parts or document or self._status or self._failure):
            return ()
        details = get_object(document, "incomplete_details")
        reason = get_text(details, "reason") if self._status == "incomplete" else ""
        raw = reason or self._status
        awaits_client = output_items.awaits_tool_results(output)
        turn = Turn(
            parts,
            finish=_FINISH.decode(raw, awaits_client=awaits_client),
            finish_raw=raw,
            usage=_USAGE.decode(get_object(document, "usage")),
            failure=self._failure,
            id=get_text(document, "id"),
            model=get_text(document, "model"),
            metadata=select_metadata(document, _METADATA),
        )
        return (turn,)


class OpenAIResponses(family.OpenAIDialect):
    """The dialect `openai-responses`."""

    name = "openai-responses"
    volatile_json_paths = ("$.client_metadata", "$.prompt_cache_key", "$.input[*].id")
    id_json_paths = ("$.input[*].call_id", "$.input[*].approval_request_id")
    tool_result_json_paths = ("$.input[type=*call_output].output",)
    metadata_names = MetadataNames(("openai", "azure"), "openai", redacted_name="encrypted_content")
    provider_variants = tuple(VARIANT_BY_PROVIDER)

    def matches(self, request: Request) -> bool:
        """Whether it creates, compacts, counts, cancels, fetches or deletes a response."""
        path = _PATH_END_BY_METHOD.get(request.method)
        return path is not None and path.search(request.path) is not None

    def streams(self, request: Request) -> bool:
        """Whether the body, or the query of a GET, sets `stream`."""
        if request.method == "GET":
            return parse_qs(request.query).get("stream") == ["true"]
        return super().streams(request)

    def decode_request(self, request: Request) -> Conversation | None:
        """The conversation; None for token counts and stored responses, which make no turn."""
        body = parse_object(request.body)
        requests_turn = request.method == "POST" and _TURN_PATH_END.search(request.path)
        if not body or not requests_turn:
            return None
        return replace(responses_requests.decode_request(body), model=self.model(request))

    def encode_request(
        self, conversation: Conversation, *, stream: bool = True, provider: str = ""
    ) -> Request:
        """The request to `/v1/responses`, without `store`: the provider's default applies."""
        return responses_requests.encode_request(conversation, stream=stream)

    def completeness(self, response: DialectResponse) -> Completeness:
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
        last_type = " ".join(last_type.split())[:_MAX_TYPE_CHARS]
        reason = f"no response.completed after {last_type}" if last_type else "no event"
        return json_api.incomplete(response, reason)

    def decode_response(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn, or none where the body holds no response."""
        if not json_api.succeeded(response.head):
            return (Turn((), failure=json_api.decode_http_error(response)),)
        return json_api.decoded_turns(self.response_decoder(response.codec_name), response)

    def response_decoder(self, codec_name: str) -> _ResponseDecoder:
        """A decoder of events, or of the document of a response that does not stream."""
        return _ResponseDecoder(streamed=codec_name == "sse")

    def output_chars(self, codec: str, message: bytes) -> int:
        """The characters of a delta; an audio delta or a partial image counts as one."""
        fields = family.decode_event(message) if codec == "sse" else {}
        return family.event_output_chars(get_string(fields, "type"), fields)

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """A request with an empty input, without instructions or tools."""
        options = {"stream": True} if stream else {}
        return response_encoding.json_post_request(
            "/v1/responses", {"model": model, **options, "input": ""}
        )

    def wire_format(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> WireFormat:
        """Output items; audio only in streams.  A turn with a `Refusal` is `completed`."""
        is_compaction = request.path.endswith(_COMPACT_PATH)
        is_streamed = self.streams(request) and not is_compaction
        is_background = parse_object(request.body).get("background") is True
        sent = dict(_FINISH.sent)
        if any(isinstance(part, Refusal) for turn in turns for part in turn.parts):
            sent[FinishReason.REFUSAL] = "completed"
        if not is_streamed and (is_background or _STORED_RESPONSE_PATH.search(request.path)):
            sent[FinishReason.PAUSED] = "in_progress"
        by_raw = {
            raw: finish
            for raw, finish in _FINISH.by_raw.items()
            if not (is_streamed and raw in _PENDING_STATUSES)
        }
        has_raw_reasoning = context.provider in _RAW_REASONING_PROVIDERS
        return WireFormat(
            dialect=self.name,
            is_streamed=is_streamed,
            parts=frozenset((Text, Reasoning, Refusal, ToolCall, ToolResult, Media)),
            finish=replace(_FINISH, by_raw=by_raw, sent=sent),
            usage=_USAGE,
            metadata=() if is_compaction else _METADATA,
            convert_part=partial(
                output_items.representable_part,
                has_audio=is_streamed,
                reasoning_type=output_items.REASONING_TEXT
                if has_raw_reasoning
                else output_items.SUMMARY,
            ),
            has_signatures=True,
            is_sent_empty=output_items.is_sent_empty,
            merged=frozenset(),
            id_prefix="resp_",
            awaits_client=lambda parts: output_items.awaits_tool_results(
                output_items.encode_items(parts)
            ),
        )

    def encode_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Events up to the whole response, a document, or a compacted conversation.

        Raises `NotRepresentable` for a second audio part.
        """
        [turn] = turns
        if sum(map(output_items.is_audio, turn.parts)) > 1:
            raise NotRepresentable("openai-responses supports only one audio output per response")
        body = parse_object(request.body)
        is_compaction = request.path.endswith(_COMPACT_PATH)
        stored = _STORED_RESPONSE_PATH.search(request.path)
        failure = turn.failure and _failure_with_type_and_code(turn.failure, context)
        raw = "failed" if failure else turn.finish_raw
        is_status = raw in _FINISH_BY_FINAL_STATUS or turn.finish is FinishReason.PAUSED
        status = "completed" if is_compaction else raw if is_status else "incomplete"
        output = output_items.encode_items_with_ids(turn.parts, context)
        if output and status != "completed" and output[-1].get("status") == "completed":
            output[-1]["status"] = "in_progress" if status in _PENDING_STATUSES else "incomplete"
        initial: Document = {
            "id": stored["id"] if stored else turn.id,
            "object": "response",
            "created_at": context.created_unix_s,
            "status": None,
            "completed_at": None,
            "error": None,
            "incomplete_details": None,
            "model": turn.model,
            "output": [],
            **_echoed_request_fields(body),
            "usage": None,
            **_response_metadata(turn, body),
        }
        final = {
            **initial,
            "status": status,
            "completed_at": context.created_unix_s if status == "completed" else None,
            "error": failure and {"code": failure.code, "message": failure.message},
            "incomplete_details": None if is_status else {"reason": raw},
            "output": output,
            "usage": None if failure else _USAGE.encode(turn.usage),
        }
        if is_compaction:
            names = ("id", "object", "created_at", "output", "usage")
            final["object"] = "response.compaction"
            return self.json_response({name: final[name] for name in names}, context)
        if not self.streams(request):
            return self.json_response(final, context)
        [after, *_] = parse_qs(request.query).get("starting_after", [""])
        resumed_after = int(after) if _SEQUENCE_NUMBER.fullmatch(after) else -1
        events = enumerate(_encode_events(turn, initial, final, failure, body, context))
        messages = (
            sse.encode_event(
                response_encoding.single_line_json(
                    {"type": kind, "sequence_number": number, **fields}
                ),
                kind,
            )
            for number, (kind, fields) in events
            if number > resumed_after
        )
        return self.stream_response(messages, context)

    def representable_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> ConvertedResponseTurns:
        """Those of the whole stream, also where the request resumes one midway."""
        query = "stream=true" if self.streams(request) else ""
        return super().representable_turns(replace(request, query=query), turns, context)

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """A token count, or 404 for a stored response; None where a turn is requested."""
        if request.path.endswith(_INPUT_TOKENS_PATH):
            body = parse_object(request.body)
            texts = _collect_strings([body.get(name) for name in _COUNTED_FIELDS], _MAX_DEPTH + 1)
            count = estimates_and_fakes.estimated_token_count("".join(texts))
            document = {"object": "response.input_tokens", "input_tokens": count}
            return self.json_response(document, context)
        stored = _STORED_RESPONSE_PATH.search(request.path)
        if stored is None:
            return None
        message = f"Response with id '{unquote(stored['id'])}' not found."
        failure = Failure(message, "invalid_request_error", "not_found")
        return self.error_response(404, failure, context)


def _typed_events(messages: Iterable[bytes]) -> Iterator[tuple[str, Fields]]:
    """Type and fields of each event; a bare response sent as a stream counts as its last event."""
    for message in messages:
        event = family.decode_event(message)
        if event.get("object") == "response":
            status = get_text(event, "status")
            yield f"response.{status}", {"response": dict(event)}
        elif event:
            yield family.event_type(message, event), event


def _decode_failure(kind: str, event: Fields) -> Failure | None:
    """The error of an event: nested, flat, or in the failed response; None without one."""
    error = event.get("error")
    if kind == "error" and not error:
        error = dict(event)
    elif kind == "response.failed":
        error = error or get_object(event, "response").get("error")
    if not error:
        return None
    if isinstance(error, dict) and error.get("type") == "error":
        error = {name: value for name, value in error.items() if name != "type"}
    return json_api.decode_failure(error)


def _encode_events(
    turn: Turn,
    initial: Document,
    final: Document,
    failure: Failure | None,
    request_body: Fields,
    context: EncodeContext,
) -> Iterator[TypedEvent]:
    """The events of a stream; if it fails, the last item stays open."""
    queued = ("queued",) if request_body.get("background") is True else ()
    statuses = (*queued, "in_progress")
    for kind, status in zip(("created", *statuses), (statuses[0], *statuses), strict=True):
        yield f"response.{kind}", {"response": {**initial, "status": status}}
    counts = (tool.get("partial_images") for tool in get_objects(request_body, "tools"))
    image_count = min(max((first_integer(count) or 0 for count in counts), default=0), 3)
    output = final["output"]
    for index, item in enumerate(output):
        is_complete = failure is None or index < len(output) - 1
        for kind, fields in output_item_events.encode_item_events(
            item, context.split_text, image_count, is_complete=is_complete
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
        yield "error", {"error": family.error_fields(failure, variant)}
    yield f"response.{final['status']}", {"response": final}


def _failure_with_type_and_code(failure: Failure, context: EncodeContext) -> Failure:
    """An error with a type and a code, as clients expect; `error` does not count as a type."""
    failure = replace(failure, type="" if failure.type == "error" else failure.type)
    variant = provider_variant(context.provider)
    failure = family.with_status_defaults(family.ERRORS.status(failure), failure, variant)
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
    return selected_fields(fields, _METADATA)


def _echoed_request_fields(body: Fields) -> Document:
    """The request's fields over their defaults; tools without credentials, as at OpenAI."""
    echoed = _ECHOED_DEFAULTS | selected_fields(body, _ECHOED_DEFAULTS)
    for name in ("reasoning", "text"):  # objects, of which a request may have some fields
        if isinstance(echoed[name], dict):
            echoed[name] = _ECHOED_DEFAULTS[name] | echoed[name]
    tools = array_objects(echoed["tools"])
    credentials = ("authorization", "headers")
    echoed["tools"] = [
        {name: value for name, value in tool.items() if name not in credentials} for tool in tools
    ]
    return echoed


def _collect_strings(value: Json, max_depth: int) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list() if max_depth:
            for item in value:
                yield from _collect_strings(item, max_depth - 1)
        case dict() if max_depth:
            for name, item in value.items():
                if name not in _UNCOUNTED_FIELDS:
                    yield from _collect_strings(item, max_depth - 1)
        case _:
            return
