"""The dialect `gemini-interactions`: Google's stateful Interactions API.

Unlike in `gemini`, events have names, and a stream ends in `[DONE]`:

    created status_update ( step.start step.delta* step.stop )* completed [DONE]

A response is a list of steps: thoughts, text, tool calls, and calls and results of the tools that
Google runs itself.  The event `interaction.completed` ends a stream too, whatever the interaction's
status.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from typing import Final
from urllib.parse import parse_qs, unquote

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import json_api, response_encoding
from llm_proxy.dialects.base import Completeness, DialectResponse
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.google import interaction_requests, interaction_steps, shared_format
from llm_proxy.dialects.google.citations import has_more_than_text
from llm_proxy.dialects.google.interaction_steps import StepDecoder
from llm_proxy.dialects.google.shared_format import GoogleDialect
from llm_proxy.dialects.lenient_json import (
    Fields,
    array_objects,
    first_integer,
    get_object,
    get_objects,
    get_string,
    get_text,
    object_fields,
    parse_object,
    select_metadata,
    selected_fields,
    str_or_empty,
    value_as_text,
)
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import FinishReasons, UsageFields, WireFormat
from llm_proxy.exchange import Request
from llm_proxy.framing import sse
from llm_proxy.turns import (
    Failure,
    FinishReason,
    Json,
    Media,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)

_PATH: Final = re.compile(
    r"/v1(?:beta1?|alpha)?(?:/projects/[^/]+/locations/[^/]+)?"
    r"/interactions(?P<of>/(?P<id>[^/]+)(?P<cancel>/cancel)?)?\Z"
)

_COMPLETED_EVENT_TYPES: Final = ("interaction.completed", "interaction.complete")
"""The type of the last event, and its older spelling."""
_DELTA_EVENT_TYPES: Final = ("step.delta", "content.delta")
_NON_OUTPUT_DELTA_TYPES: Final = ("thought_signature", "text_annotation", "text_annotation_delta")
"""The types of deltas without output characters: signatures and annotations."""

_IN_PROGRESS: Final = "in_progress"
_CANCELLED: Final = "cancelled"
_FINISH: Final = FinishReasons(
    {
        "completed": FinishReason.STOP,
        "requires_action": FinishReason.TOOL_CALLS,
        "incomplete": FinishReason.LENGTH,
        "budget_exceeded": FinishReason.LENGTH,
        "requires_continuation": FinishReason.PAUSED,
        "failed": FinishReason.ERROR,
    },
    {
        FinishReason.STOP: "completed",
        FinishReason.TOOL_CALLS: "requires_action",
        FinishReason.LENGTH: "incomplete",
        FinishReason.PAUSED: "requires_continuation",
        FinishReason.ERROR: "failed",
        FinishReason.OTHER: _CANCELLED,
    },
    unfinished=("", _IN_PROGRESS, "queued"),
)
_USAGE: Final = UsageFields(
    {
        "input": ("total_input_tokens",),
        "output": ("total_output_tokens",),
        "total": ("total_tokens",),
        "cache_read": ("total_cached_tokens",),
        "reasoning": ("total_thought_tokens",),
    },
    required=("input", "output", "total"),
)
"""The output excludes reasoning."""
_METADATA: Final = ("agent", "previous_interaction_id", "service_tier", "environment_id")


class GeminiInteractions(GoogleDialect):
    """The dialect `gemini-interactions`."""

    name = interaction_steps.DIALECT
    id_json_paths = (
        "$.input[*].id",
        "$.input[*].call_id",
        "$.input[*].content[*].id",
        "$.input[*].content[*].call_id",
    )
    tool_result_json_paths = (
        "$.input[type=function_result].result",
        "$.input[*].content[type=function_result].result",
    )

    def matches(self, request: Request) -> bool:
        """Interactions, on Google's own API and on Vertex AI."""
        if (match := _PATH.search(request.path)) is None:
            return False
        if request.method == "POST":
            return match["of"] is None or match["cancel"] is not None
        return request.method in ("GET", "DELETE") and match["of"] is not None

    def model(self, request: Request) -> str:
        """The body's `model`, or its `agent`."""
        fields = parse_object(request.body)
        return value_as_text(fields.get("model") or fields.get("agent")).removeprefix("models/")

    def streams(self, request: Request) -> bool:
        """By the body's `stream`; for a GET, which resumes an interaction, by the query's."""
        if request.method == "GET":
            return parse_qs(request.query).get("stream") == ["true"]
        return super().streams(request)

    def decode_request(self, request: Request) -> Conversation | None:
        """The conversation of a new interaction; None for other requests."""
        body = parse_object(request.body)
        is_new = request.method == "POST" and not _interaction_id_of_path(request)
        return interaction_requests.decode_request(body) if body and is_new else None

    def encode_request(
        self, conversation: Conversation, *, stream: bool = True, provider: str = ""
    ) -> Request:
        """The request for a new interaction."""
        return interaction_requests.encode_request(conversation, stream=stream)

    def completeness(self, response: DialectResponse) -> Completeness:
        """By `[DONE]`, the event `interaction.completed`, or an error."""
        if response.codec_name != "sse" or not json_api.succeeded(response.head):
            return json_api.completeness(response)
        for message in reversed(shared_format.rejoin_split_stream_messages(response)):
            if sse.is_done_message(message):
                return Completeness(is_complete=True, reason=sse.DONE_DATA.decode())
            event = shared_format.decode_event(message)
            if event.get("event_type") in _COMPLETED_EVENT_TYPES:
                return Completeness(is_complete=True, reason="interaction completed")
            if error := event.get("error"):
                return json_api.completed_by_error(shared_format.decode_failure(error))
        return json_api.incomplete(response, "no [DONE], interaction not completed")

    def decode_response(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn, or none where the response holds no interaction."""
        if not json_api.succeeded(response.head):
            return (Turn((), failure=shared_format.decode_http_error(response)),)
        messages = shared_format.rejoin_split_stream_messages(response)
        return json_api.decoded_turns(
            self.response_decoder(response.codec_name), replace(response, framed_messages=messages)
        )

    def response_decoder(self, codec_name: str) -> EventsDecoder:
        """A decoder of events, or of the document of a response that does not stream."""
        return EventsDecoder(codec_name)

    def output_chars(self, codec: str, message: bytes) -> int:
        """The output characters of an event."""
        if codec != "sse":
            return 0
        return _event_output_chars(shared_format.decode_event(message))

    def sample_request(self, model: str, *, stream: bool) -> Request:
        """A new interaction with empty input."""
        fields = {"stream": True} if stream else {}
        return response_encoding.json_post_request(
            "/v1beta/interactions", {"model": model, "input": "", **fields}
        )

    def wire_format(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> WireFormat:
        """One step per part."""
        streams = self.streams(request)
        return WireFormat(
            dialect=self.name,
            is_streamed=streams,
            parts=frozenset((Text, Reasoning, ToolCall, ToolResult, Media)),
            finish=_FINISH,
            usage=_USAGE,
            metadata=_METADATA,
            convert_part=interaction_steps.sendable_part,
            convert_provider_call=interaction_steps.as_server_call,
            # A streamed function call can have any text as arguments.
            has_object_arguments=not streams,
            has_signatures=True,
            is_sent_empty=has_more_than_text,
            merged=frozenset(),
            id_prefix="v1_",
            awaits_client=lambda parts: any(map(interaction_steps.is_client_call, parts)),
        )

    def encode_turns(
        self, request: Request, turns: Sequence[Turn], context: EncodeContext
    ) -> DialectResponse:
        """Events up to `[DONE]`, or one document; an interaction of the path keeps its id.

        That of an agent names the agent and no model.
        """
        [turn] = turns
        turn = replace(turn, id=_interaction_id_of_path(request) or turn.id)
        body = parse_object(request.body)
        if (agent := get_text(body, "agent")) and not body.get("model"):
            metadata: dict[str, Json] = {"agent": agent, **dict(turn.metadata)}
            turn = replace(turn, model="", metadata=tuple(metadata.items()))
        if self.streams(request):
            events = _encode_events(turn, context)
            return response_encoding.stream_response("sse", sse.CONTENT_TYPE, events)
        steps = [interaction_steps.encode_step(part) for part in turn.parts]
        return response_encoding.json_response({**_completed_object(turn, context), "steps": steps})

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """An empty object for a deletion; the interaction for a cancellation; else None."""
        if request.method == "DELETE":
            return response_encoding.json_response({})
        if request.method == "POST" and (interaction_id := _interaction_id_of_path(request)):
            cancelled = _interaction_object(Turn((), id=interaction_id), _CANCELLED, context)
            return response_encoding.json_response(cancelled)
        return None


def _interaction_id_of_path(request: Request) -> str:
    """The id of the interaction in the path; empty where it has none."""
    match = _PATH.search(request.path)
    return unquote(match["id"] or "") if match else ""


def _event_output_chars(event: Fields) -> int:
    """The output characters that an event adds to a response; a delta counts as at least one.

    Signatures and annotations count nothing.
    """
    delta = get_object(event, "delta")
    if (
        event.get("event_type") not in _DELTA_EVENT_TYPES
        or delta.get("type") in _NON_OUTPUT_DELTA_TYPES
    ):
        return 0
    summary_content = get_object(delta, "content")  # of a thought's summary
    texts = (delta.get("text"), delta.get("arguments"), summary_content.get("text"))
    return max(sum(len(str_or_empty(text)) for text in texts), 1)


class EventsDecoder:
    """Decodes the events of a stream, or the document of a response that does not stream."""

    def __init__(self, codec: str) -> None:
        self._codec = codec
        self._steps: dict[int, StepDecoder] = {}
        self._returned_call_indices: set[int] = set()
        """The steps whose calls `feed` has returned."""
        self._interaction: dict[str, Json] = {}
        """The latest value of each field of the interaction."""
        self._failure: Failure | None = None

    def feed(self, message: bytes) -> list[Part]:
        """Decode an event, or a document; a call is complete when its step ends."""
        if self._codec == "sse":
            return self._feed_event(shared_format.decode_event(message))
        pieces: list[Part] = []
        for document in shared_format.parse_json_objects(message):
            kind = _COMPLETED_EVENT_TYPES[0]
            pieces += self._feed_event({"event_type": kind, "interaction": dict(document)})
        return pieces

    def _feed_event(self, event: Fields) -> list[Part]:
        if error := event.get("error"):
            self._failure = self._failure or shared_format.decode_failure(error)
        index = first_integer(event.get("index"), len(self._steps)) or 0
        pieces: list[Part] = []
        fields: Fields = {}
        match get_string(event, "event_type"):
            case "step.start" | "content.start":
                step = object_fields(event.get("step") or event.get("content"))
                pieces = self._feed_step(index, step)
            case kind if kind in _DELTA_EVENT_TYPES:
                pieces = self._feed_step(index, get_object(event, "delta"))
                metadata = get_object(event, "metadata")
                fields = {"usage": metadata.get("total_usage")}
            case "step.stop" | "content.stop" if index in self._steps:
                pieces = self._completed_calls(index)
            case "interaction.status_update":
                fields = {"id": event.get("interaction_id"), "status": event.get("status")}
            case kind if kind.startswith("interaction."):
                fields = get_object(event, "interaction")
                if kind in _COMPLETED_EVENT_TYPES:
                    pieces = self._completed_pieces(fields)
            case _:
                pass
        self._interaction.update(
            (name, value) for name, value in fields.items() if value not in (None, "", [], {})
        )
        return pieces

    def _feed_step(self, index: int, fields: Fields) -> list[Part]:
        if index not in self._steps:
            self._steps[index] = StepDecoder()
        return self._steps[index].feed(fields)

    def _completed_calls(self, index: int) -> list[Part]:
        """The call of a step, unless `feed` has returned it."""
        if index in self._returned_call_indices:
            return []
        self._returned_call_indices.add(index)
        return self._steps[index].client_calls()

    def _completed_pieces(self, interaction: Fields) -> list[Part]:
        """What is complete at the end: calls of steps that have not ended, or all whole steps."""
        if self._steps:
            return [call for index in sorted(self._steps) for call in self._completed_calls(index)]
        parts = chain.from_iterable(step.parts() for step in _decode_whole_steps(interaction))
        return [*filter(json_api.is_piece, parts)]

    def turns(self) -> tuple[Turn, ...]:
        """One turn so far; none where the response has no steps, no status and no error."""
        interaction, failure = self._interaction, self._failure
        # of a stream they are in its events
        steps = [step for _, step in sorted(self._steps.items())] or _decode_whole_steps(
            interaction
        )
        status = get_text(interaction, "status")
        if not (steps or status or failure):
            return ()
        for whole_error in get_objects(interaction, "errors"):
            failure = failure or shared_format.decode_failure(dict(whole_error))
        finish = _FINISH.decode(status)
        turn = Turn(
            tuple(chain.from_iterable(step.parts() for step in steps)),
            finish=finish,
            finish_raw=status if finish else "",
            usage=_USAGE.decode(get_object(interaction, "usage")),
            failure=failure,
            id=get_text(interaction, "id"),
            model=get_text(interaction, "model"),
            metadata=select_metadata(interaction, _METADATA),
        )
        return (turn,)


def _decode_whole_steps(interaction: Fields) -> list[StepDecoder]:
    """The steps in the interaction itself."""
    steps: list[StepDecoder] = []
    for fields in array_objects(interaction.get("steps") or interaction.get("outputs")):
        steps.append(StepDecoder())
        steps[-1].feed(fields)
    return steps


def _encode_events(turn: Turn, context: EncodeContext) -> Iterator[bytes]:
    created = _interaction_object(turn, _IN_PROGRESS, context)
    yield _encode_event("interaction.created", interaction=created)
    yield _encode_event("interaction.status_update", interaction_id=turn.id, status=_IN_PROGRESS)
    for index, part in enumerate(turn.parts):
        start, *deltas = interaction_steps.encode_streamed_step(part, context.split_text)
        yield _encode_event("step.start", index=index, step=start)
        for delta in deltas:
            yield _encode_event("step.delta", index=index, delta=delta)
        yield _encode_event("step.stop", index=index)
    if turn.failure is not None:
        message = shared_format.error_document(turn.failure)["error"]["message"]
        code = turn.failure.type or turn.failure.code or "internal"
        yield _encode_event("error", error={"code": code, "message": message})
        return
    completed = _completed_object(turn, context)
    yield _encode_event(_COMPLETED_EVENT_TYPES[0], interaction=completed)
    yield sse.encode_event(sse.DONE_DATA)


def _encode_event(kind: str, **fields: object) -> bytes:
    return sse.encode_event(
        response_encoding.single_line_json({"event_type": kind, **fields}), kind
    )


def _completed_object(turn: Turn, context: EncodeContext) -> Document:
    counts = {"usage": _USAGE.encode(turn.usage)} if turn.usage is not None else {}
    return {**_interaction_object(turn, turn.finish_raw, context), **counts}


def _interaction_object(turn: Turn, status: str, context: EncodeContext) -> Document:
    created = datetime.fromtimestamp(context.created_unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "id": turn.id,
        "object": "interaction",
        **({"model": turn.model} if turn.model else {}),
        **selected_fields(turn.metadata, _METADATA),
        "status": status,
        "created": created,
        "updated": created,
    }
