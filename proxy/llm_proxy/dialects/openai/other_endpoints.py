"""OpenAI's other endpoints: embeddings, images, audio, files and more.

Their requests are recognised and their responses judged for completeness; only transcripts and
errors are decoded.  Most respond with one JSON document.  Audio, videos and files are bytes
delimited by HTTP alone.  Images, speech, transcriptions and assistant runs may stream as SSE,
which ends with a typed final event or `[DONE]`; a stream of unknown events only proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from llm_proxy import framing
from llm_proxy.dialects import forms, json_api, lenient_json
from llm_proxy.dialects.base import Completeness, DialectResponse, RecordOnlyDialect
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.openai import audio_transcripts, auxiliary_responses, errors, shared_format
from llm_proxy.exchange import Headers, Request, ResponseHead, header_value
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import Failure, Turn

_ANTHROPIC_VERSION_HEADER: Final = "anthropic-version"
"""A header of Anthropic's clients, whose models, files and batches have the same paths."""

_ANY_PREFIX: Final = r".*/"
"""For path names that only OpenAI-compatible APIs use: any prefix."""
_OPENAI_PREFIX: Final = r".*/(?:v1|openai)/"
"""For path names that other APIs use too: OpenAI's own prefix."""

_POST_ONLY: Final = ("POST",)
_RESOURCE_METHODS: Final = ("GET", "POST", "DELETE")

_FINAL_EVENT_TYPES: Final = frozenset(
    (
        *audio_transcripts.FINAL_EVENT_TYPES,
        "speech.audio.done",
        "image_generation.completed",
        "image_edit.completed",
    )
)
_NONFINAL_TYPE_SUFFIXES: Final = (".delta", ".segment", ".partial_image")
"""Suffixes of event types that never end a stream."""
_OUTPUT_TYPE_SUFFIXES: Final = (".delta", ".partial_image")
"""Suffixes of event types that add to the output."""


def _no_response(_request: Request, _context: EncodeContext) -> None:
    """None: the response cannot be made up without a recording."""


def _decode_stream_failure(response: DialectResponse) -> tuple[Turn, ...]:
    """A turn with the first error of a stream; a document's `error` field is no failure."""
    events = (
        map(shared_format.decode_event, response.framed_messages)
        if response.codec_name == "sse"
        else ()
    )
    failures = (
        json_api.decode_failure(fields["error"]) for fields in events if fields.get("error")
    )
    return tuple(Turn((), failure=failure) for failure in failures)[:1]


@dataclass(frozen=True)
class OpenAIEndpoint(RecordOnlyDialect):
    """One endpoint, as a dialect that is never encoded and decoded only in part."""

    name: str
    path_pattern: re.Pattern[str]
    """Matches the full path of a request; an optional group `model` holds the model."""
    methods: tuple[str, ...]
    unstreamed_completeness_check: Callable[[DialectResponse], Completeness] = json_api.completeness
    """Judges the completeness of a successful response that is not SSE."""
    decode_successful_response: Callable[[DialectResponse], tuple[Turn, ...]] = (
        _decode_stream_failure
    )
    """Decodes a successful response."""
    respond: Callable[[Request, EncodeContext], DialectResponse | None] = _no_response
    """Makes the response where nothing was recorded; None where none can be made."""
    cassette_key_headers: tuple[str, ...] = ("openai-beta",)

    def matches(self, request: Request) -> bool:
        """Whether method and path are the endpoint's, and no `anthropic-version` header is set."""
        return (
            request.method in self.methods
            and self.path_pattern.fullmatch(request.path) is not None
            and header_value(request.headers, _ANTHROPIC_VERSION_HEADER) is None
        )

    def model(self, request: Request) -> str:
        """The `model` of the form or the JSON body, else what the path names."""
        if model := forms.form_field_value(request, "model") or shared_format.requested_model(
            request
        ):
            return model
        path_match = self.path_pattern.fullmatch(request.path)
        return unquote((path_match and path_match.groupdict().get("model")) or "")

    def streams(self, request: Request) -> bool:
        """Whether the body or the form sets `stream`, or (for speech) `stream_format` is `sse`."""
        fields = lenient_json.parse_object(request.body)
        return (
            fields.get("stream") is True
            or fields.get("stream_format") == "sse"
            or forms.form_field_value(request, "stream").lower() == "true"
        )

    def codec_name(self, request: Request, head: ResponseHead) -> str:
        """By status and content type; without a content type, by whether the request streams."""
        if not json_api.succeeded(head):
            return "whole"
        if content_type := header_value(head.headers, "content-type"):
            return framing.codec_name_for_content_type(content_type)
        return "sse" if self.streams(request) else "whole"

    def completeness(self, response: DialectResponse) -> Completeness:
        """SSE is judged by its last known event, any other body by the endpoint's own rule."""
        if not json_api.succeeded(response.head):
            return json_api.completeness(response)
        return (
            _stream_completeness(response)
            if response.codec_name == "sse"
            else self.unstreamed_completeness_check(response)
        )

    def decode_response(self, response: DialectResponse) -> tuple[Turn, ...]:
        """A transcript or an error as one turn; otherwise no turn."""
        if not json_api.succeeded(response.head):
            return (Turn((), failure=json_api.decode_http_error(response)),)
        return self.decode_successful_response(response)

    def output_chars(self, codec: str, message: bytes) -> int:
        """The characters of a delta; an audio delta or a partial image counts as one."""
        if codec != "sse" or not _event_type(message).endswith(_OUTPUT_TYPE_SUFFIXES):
            return 0
        return max(len(_delta_text(shared_format.decode_event(message))), 1)

    def error_body(self, status: int, kind: str, message: str) -> bytes:
        """A JSON error body in OpenAI's format; every client prints its message and code."""
        return shared_format.error_body(kind, message)

    def error_response(
        self,
        status: int,
        failure: Failure,
        context: EncodeContext,
        retry_after: float | None = None,
    ) -> DialectResponse:
        """An HTTP error in the provider's format, as for chats."""
        return errors.error_response(status, failure, context, retry_after)

    def rate_limit_headers(self, context: EncodeContext) -> Headers:
        """The `x-ratelimit-*` headers of requests and tokens."""
        return errors.rate_limit_headers(context)

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """The response that the endpoint makes without a recording, or None."""
        return self.respond(request, context)


def _stream_completeness(response: DialectResponse) -> Completeness:
    """By the last event that is final, not final, or an error; unproven where there is none."""
    for message in reversed(response.framed_messages):
        if shared_format.is_done_event(message):
            return Completeness(is_complete=True, reason="[DONE]")
        fields = shared_format.decode_event(message)
        if error := fields.get("error"):
            return json_api.completed_by_error(json_api.decode_failure(error))
        kind = _event_type(message)
        if kind in _FINAL_EVENT_TYPES:
            return Completeness(is_complete=True, reason=kind)
        if kind.endswith(_NONFINAL_TYPE_SUFFIXES):
            return Completeness(is_complete=False, reason=f"no end after {kind}")
    if not json_api.joined_body(response).strip():
        return Completeness(is_complete=False, reason="empty stream")
    return Completeness(is_complete=True, reason="no event that could tell", is_proven=False)


def _event_type(message: bytes) -> str:
    return (
        lenient_json.value_as_text(shared_format.decode_event(message).get("type"))
        or parse_event(message).event_type
    )


def _delta_text(fields: Fields) -> str:
    """The text of a transcription delta, or of a delta of an assistant's message."""
    delta = fields.get("delta")
    blocks = lenient_json.array_objects(lenient_json.object_fields(delta).get("content"))
    texts = (
        lenient_json.str_or_empty(lenient_json.object_fields(block.get("text")).get("value"))
        for block in blocks
    )
    return (
        lenient_json.str_or_empty(delta)
        or lenient_json.str_or_empty(fields.get("text"))
        or "".join(texts)
    )


def _completeness_by_content_type(response: DialectResponse) -> Completeness:
    """A JSON content type: complete when it parses; any other: by the HTTP framing."""
    is_json = "json" in (header_value(response.head.headers, "content-type") or "").lower()
    return (
        json_api.completeness(response) if is_json else json_api.completeness_by_framing(response)
    )


def _build_endpoint(
    name: str, path: str, methods: tuple[str, ...] = _POST_ONLY, **options: Any
) -> OpenAIEndpoint:
    return OpenAIEndpoint(f"openai-{name}", re.compile(path), methods, **options)


ENDPOINTS: Final[tuple[OpenAIEndpoint, ...]] = (
    _build_endpoint(
        "embeddings", _ANY_PREFIX + "embeddings", respond=auxiliary_responses.embeddings_response
    ),
    _build_endpoint(
        "moderations", _ANY_PREFIX + "moderations", respond=auxiliary_responses.moderations_response
    ),
    _build_endpoint("images", _ANY_PREFIX + "images/(?:generations|edits|variations)"),
    _build_endpoint(
        "audio",
        _ANY_PREFIX + "audio/(?:speech|transcriptions|translations)",
        unstreamed_completeness_check=_completeness_by_content_type,
        decode_successful_response=audio_transcripts.decode_transcription,
    ),
    _build_endpoint(
        "videos",
        _OPENAI_PREFIX + "videos(?:/.+)?",
        _RESOURCE_METHODS,
        unstreamed_completeness_check=_completeness_by_content_type,
    ),
    _build_endpoint(
        "models",
        rf"(?:{_OPENAI_PREFIX}|/)models(?:/(?P<model>[^/]+))?",
        ("GET", "DELETE"),
        respond=auxiliary_responses.models_response,
    ),
    _build_endpoint("files", _OPENAI_PREFIX + "files(?:/[^/]+)?", _RESOURCE_METHODS),
    _build_endpoint(
        "file-content",
        _OPENAI_PREFIX + "files/[^/]+/content",
        ("GET",),
        unstreamed_completeness_check=json_api.completeness_by_framing,
    ),
    _build_endpoint("uploads", _OPENAI_PREFIX + "uploads(?:/.+)?"),
    _build_endpoint("batches", _OPENAI_PREFIX + "batches(?:/.+)?", ("GET", "POST")),
    _build_endpoint("fine-tuning", _OPENAI_PREFIX + "fine_tuning/.+", _RESOURCE_METHODS),
    _build_endpoint("vector-stores", _OPENAI_PREFIX + "vector_stores(?:/.+)?", _RESOURCE_METHODS),
    _build_endpoint("conversations", _OPENAI_PREFIX + "conversations(?:/.+)?", _RESOURCE_METHODS),
    _build_endpoint(
        "assistants", _OPENAI_PREFIX + "(?:assistants|threads)(?:/.+)?", _RESOURCE_METHODS
    ),
)
"""One dialect per endpoint; their paths do not overlap."""
