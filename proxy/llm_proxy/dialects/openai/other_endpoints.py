"""OpenAI's other endpoints: embeddings, images, audio, files and more.

Their requests are recognised and their responses judged for completeness; only transcripts and
errors are decoded.  Without a recording, models, embeddings and moderations have fake responses.
Most respond with one JSON document.  Audio, videos and files are bytes delimited by HTTP alone.
Images, speech, transcriptions and assistant runs may stream as SSE, which ends with a typed final
event or `[DONE]`; a stream of unknown events only proves nothing.

A transcript or a translation of audio is JSON with a `text`, or plain text (or subtitles).  Its
stream has deltas of the text, segments with times or speakers if requested, and a final event with
the whole text.  Mistral's events have other names.
"""

from __future__ import annotations

import re
import struct
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from llm_proxy import framing
from llm_proxy.dialects import estimates_and_fakes, json_api
from llm_proxy.dialects.base import Completeness, DialectResponse, RecordOnlyDialect
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.lenient_json import (
    Fields,
    compact_json,
    get_integer,
    get_object,
    get_string,
    get_text,
    join_pieces,
    parse_object,
    select_metadata,
)
from llm_proxy.dialects.openai import family
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import UsageFields
from llm_proxy.exchange import Request, ResponseHead, header_value
from llm_proxy.framing import sse
from llm_proxy.turns import Failure, FinishReason, Json, Text, Turn

_ANTHROPIC_VERSION_HEADER: Final = "anthropic-version"
"""A header of Anthropic's clients, whose models, files and batches have the same paths."""

_ANY_PREFIX: Final = r".*/"
"""For path names that only OpenAI-compatible APIs use: any prefix."""
_OPENAI_PREFIX: Final = r".*/(?:v1|openai)/"
"""For path names that other APIs use too: OpenAI's own prefix."""

_POST_ONLY: Final = ("POST",)
_RESOURCE_METHODS: Final = ("GET", "POST", "DELETE")

_TRANSCRIPT_FINAL_EVENT_TYPES: Final = ("transcript.text.done", "transcription.done")
"""Types of the event that ends a stream: OpenAI's, Mistral's."""

_TEXT_FIELD_BY_EVENT_TYPE: Final = {
    "transcript.text.delta": "delta",
    "transcription.text.delta": "text",
}
"""The field with a piece of the text, by event type."""

_SEGMENT_EVENT_TYPES: Final = ("transcript.text.segment", "transcription.segment")
_TEXT_MEDIA_TYPES: Final = ("text/plain", "text/vtt", "text/srt", "application/x-subrip")
_TRANSCRIPT_METADATA_FIELDS: Final = (
    "task", "language", "languages", "duration", "segments", "words", "logprobs",
)  # fmt: skip
_TRANSCRIPT_USAGE: Final = UsageFields(
    {"input": ("input_tokens",), "output": ("output_tokens",), "total": ("total_tokens",)},
    also_at={"input": (("prompt_tokens",),), "output": (("completion_tokens",),)},
)
"""Usage may count seconds instead of tokens."""

_FINAL_EVENT_TYPES: Final = frozenset(
    (
        *_TRANSCRIPT_FINAL_EVENT_TYPES,
        "speech.audio.done",
        "image_generation.completed",
        "image_edit.completed",
    )
)
_NONFINAL_TYPE_SUFFIXES: Final = (".delta", ".segment", ".partial_image")
"""Suffixes of event types that never end a stream."""

_BOUNDARY: Final = re.compile(
    r'multipart/form-data\s*;.*?\bboundary=(?:"([^"]+)"|([^\s;,"]+))', re.IGNORECASE
)
_FIELD_NAME: Final = re.compile(
    rb'^content-disposition:[^\r\n]*[;\s]name=(?:"([^"\r\n]*)"|([^\s;"]+))',
    re.IGNORECASE | re.MULTILINE,
)
_MAX_PART_BYTES: Final = 4096
"""Larger parts, headers included, are files and skipped."""

_DEFAULT_DIMENSIONS: Final = 1536
_DIMENSIONS_BY_MODEL: Final = {"text-embedding-3-large": 3072}
"""Dimensions of models that differ from the default."""

_MODERATION_CATEGORIES: Final = (
    "harassment", "harassment/threatening", "hate", "hate/threatening", "illicit",
    "illicit/violent", "self-harm", "self-harm/instructions", "self-harm/intent", "sexual",
    "sexual/minors", "violence", "violence/graphic",
)  # fmt: skip


@dataclass(frozen=True)
class OpenAIEndpoint(RecordOnlyDialect, family.OpenAIDialect):
    """One endpoint, as a dialect that is never encoded and decoded only in part."""

    name: str
    path_pattern: re.Pattern[str]
    """Matches the full path of a request; an optional group `model` holds the model."""
    methods: tuple[str, ...]
    unstreamed_completeness_check: Callable[[DialectResponse], Completeness] = json_api.completeness
    """Judges the completeness of a successful response that is not SSE."""
    has_transcript: bool = False
    """Whether its documents may hold a transcript."""
    respond: (
        Callable[[family.OpenAIDialect, Request, EncodeContext], DialectResponse | None] | None
    ) = None
    """Makes the response where nothing was recorded; None where none can be made."""

    def matches(self, request: Request) -> bool:
        """Whether method and path are the endpoint's, and no `anthropic-version` header is set."""
        return (
            request.method in self.methods
            and self.path_pattern.fullmatch(request.path) is not None
            and header_value(request.headers, _ANTHROPIC_VERSION_HEADER) is None
        )

    def model(self, request: Request) -> str:
        """The `model` of the form or the JSON body, else what the path names."""
        if model := form_field_value(request, "model") or super().model(request):
            return model
        path_match = self.path_pattern.fullmatch(request.path)
        return unquote((path_match and path_match.groupdict().get("model")) or "")

    def streams(self, request: Request) -> bool:
        """Whether the body or the form sets `stream`, or (for speech) `stream_format` is `sse`."""
        fields = parse_object(request.body)
        return (
            fields.get("stream") is True
            or fields.get("stream_format") == "sse"
            or form_field_value(request, "stream").lower() == "true"
        )

    def codec_name(self, request: Request, head: ResponseHead) -> str:
        """By status and content type; without a content type, by whether the request streams."""
        content_type = header_value(head.headers, "content-type")
        if content_type and json_api.succeeded(head):
            return framing.codec_name_for_content_type(content_type)
        return super().codec_name(request, head)

    def completeness(self, response: DialectResponse) -> Completeness:
        """SSE is judged by its last known event, any other body by the endpoint's own rule.

        A stream of unknown events only proves nothing.
        """
        if not json_api.succeeded(response.head):
            return json_api.completeness(response)
        if response.codec_name != "sse":
            return self.unstreamed_completeness_check(response)
        for message in reversed(response.framed_messages):
            if sse.is_done_message(message):
                return Completeness(is_complete=True, reason="[DONE]")
            fields = family.decode_event(message)
            if error := fields.get("error"):
                return json_api.completed_by_error(json_api.decode_failure(error))
            kind = family.event_type(message, fields)
            if kind in _FINAL_EVENT_TYPES:
                return Completeness(is_complete=True, reason=kind)
            if kind.endswith(_NONFINAL_TYPE_SUFFIXES):
                return Completeness(is_complete=False, reason=f"no final event after {kind}")
        if not response.body.strip():
            return Completeness(is_complete=False, reason="empty stream")
        return Completeness(is_complete=True, reason="no known event type", is_proven=False)

    def decode_response(self, response: DialectResponse) -> tuple[Turn, ...]:
        """A transcript or an error as one turn; otherwise no turn."""
        if not json_api.succeeded(response.head):
            return (Turn((), failure=json_api.decode_http_error(response)),)
        is_decoded = self.has_transcript or response.codec_name == "sse"
        return decode_transcription(response) if is_decoded else ()

    def output_chars(self, codec: str, message: bytes) -> int:
        """The characters of a delta; an audio delta or a partial image counts as one."""
        if codec != "sse":
            return 0
        fields = family.decode_event(message)
        return family.event_output_chars(family.event_type(message, fields), fields)

    def auxiliary_response(
        self, request: Request, context: EncodeContext
    ) -> DialectResponse | None:
        """The response that the endpoint makes without a recording, or None."""
        return self.respond(self, request, context) if self.respond else None


def form_field_value(request: Request, name: str) -> str:
    """The value of the first field of that name; empty if there is none, or no form.

    Only short fields are read: the model name, not the uploaded file.
    """
    boundary = _BOUNDARY.match((header_value(request.headers, "content-type") or "").strip())
    if boundary is None:
        return ""
    delimiter = b"--" + (boundary[1] or boundary[2]).encode("latin-1", "replace")
    for part in request.body.split(delimiter):
        if len(part) > _MAX_PART_BYTES:
            continue
        head, blank, value = part.partition(b"\r\n\r\n")
        name_match = _FIELD_NAME.search(head)
        if blank and name_match and (name_match[1] or name_match[2] or b"") == name.encode():
            return value.removesuffix(b"\r\n").decode("utf-8", "replace")
    return ""


def _completeness_by_content_type(response: DialectResponse) -> Completeness:
    """A JSON content type: complete when it parses; any other: by the HTTP framing."""
    is_json = "json" in (header_value(response.head.headers, "content-type") or "").lower()
    return (
        json_api.completeness(response) if is_json else json_api.completeness_by_framing(response)
    )


def decode_transcription(response: DialectResponse) -> tuple[Turn, ...]:
    """One turn with the transcript, or with the error of a stream; none without either.

    Of a stream, the text is that of the final event; without that event, the joined deltas.
    """
    is_finished, failure = True, None
    if response.codec_name == "sse":
        pieces: list[str] = []
        segments: list[Json] = []
        final_event: Fields = {}
        for fields in map(family.decode_event, response.framed_messages):
            kind = get_text(fields, "type")
            if error := fields.get("error"):
                failure = failure or json_api.decode_failure(error)
            elif kind in _TRANSCRIPT_FINAL_EVENT_TYPES:
                final_event = fields
            elif kind in _SEGMENT_EVENT_TYPES:
                segments.append(dict(fields))
            elif kind in _TEXT_FIELD_BY_EVENT_TYPE:
                pieces.append(get_string(fields, _TEXT_FIELD_BY_EVENT_TYPE[kind]))
        if not (pieces or segments or final_event or failure):
            return ()
        transcript: Fields = {"text": join_pieces(pieces), "segments": segments, **final_event}
        is_finished = bool(final_event)
    else:
        body = response.body
        media_type = (header_value(response.head.headers, "content-type") or "").partition(";")[0]
        is_plain = media_type.strip().lower() in _TEXT_MEDIA_TYPES
        transcript = {"text": body.decode("utf-8", "replace")} if is_plain else parse_object(body)
        if not isinstance(transcript.get("text"), str):
            return ()
    text = join_pieces([get_string(transcript, "text")])
    counts = get_object(transcript, "usage")
    turn = Turn(
        (Text(text),) if text else (),
        finish=FinishReason.STOP if is_finished else None,
        finish_raw=get_text(transcript, "type"),
        usage=_TRANSCRIPT_USAGE.decode(counts),
        failure=failure,
        model=get_text(transcript, "model"),
        metadata=(
            *select_metadata(transcript, _TRANSCRIPT_METADATA_FIELDS),
            *select_metadata(counts, ("seconds",)),
        ),
    )
    return (turn,)


def _models_response(
    dialect: family.OpenAIDialect, request: Request, context: EncodeContext
) -> DialectResponse | None:
    """All models of the context, or the one in the path; any exists where the context has none.

    None for a method other than GET: deleting a model is not simulated.
    """
    if request.method != "GET":
        return None
    _, separator, quoted_name = request.path.rpartition("/models/")
    name = unquote(quoted_name)
    if separator and context.models and name not in context.models:
        message = f"The model `{name}` does not exist or you do not have access to it."
        return dialect.error_response(404, Failure(message), context)
    created = context.created_unix_s
    models = [
        {"id": model, "object": "model", "created": created, "owned_by": "test-llm"}
        for model in ([name] if separator else context.models)
    ]
    document = models[0] if separator else {"object": "list", "data": models}
    return dialect.json_response(document, context)


def _embeddings_response(
    dialect: family.OpenAIDialect, request: Request, context: EncodeContext
) -> DialectResponse:
    """A fake vector for each text or token list, base64 if requested; 400 without input."""
    body = parse_object(request.body)
    texts = _embedding_inputs(body.get("input"))
    if not texts:
        return dialect.error_response(400, Failure("'input' has no text to embed."), context)
    model = get_text(body, "model")
    dimensions = get_integer(body, "dimensions") or _DIMENSIONS_BY_MODEL.get(
        model, _DEFAULT_DIMENSIONS
    )
    data: list[Document] = []
    for index, text in enumerate(texts):
        vector: list[float] | str = estimates_and_fakes.fake_embedding(text, dimensions)
        if body.get("encoding_format") == "base64":  # little-endian, as the SDKs unpack them
            vector = b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
        data.append({"object": "embedding", "index": index, "embedding": vector})
    total = sum(map(estimates_and_fakes.estimated_token_count, texts))
    usage = {"prompt_tokens": total, "total_tokens": total}
    document = {"object": "list", "data": data, "model": model, "usage": usage}
    return dialect.json_response(document, context)


def _embedding_inputs(value: Json) -> list[str]:
    """The texts; a list of numbers is one text in tokens, as JSON."""
    match value:
        case str():
            return [value]
        case [int(), *_]:
            return [compact_json(value)]
        case list():
            return [item if isinstance(item, str) else compact_json(item) for item in value]
        case _:
            return []


def _moderations_response(
    dialect: family.OpenAIDialect, request: Request, context: EncodeContext
) -> DialectResponse:
    """A moderation response with one result per input, none of them flagged."""
    body = parse_object(request.body)
    count = max(len(_embedding_inputs(body.get("input"))), 1)
    result = {
        "flagged": False,
        "categories": dict.fromkeys(_MODERATION_CATEGORIES, False),
        "category_scores": dict.fromkeys(_MODERATION_CATEGORIES, 0.0),
        "category_applied_input_types": {name: ["text"] for name in _MODERATION_CATEGORIES},
    }
    document = {
        "id": context.fake_identifier("modr-"),
        "model": get_text(body, "model") or "omni-moderation-latest",
        "results": [result] * count,
    }
    return dialect.json_response(document, context)


def _build_endpoint(
    name: str, path: str, methods: tuple[str, ...] = _POST_ONLY, **options: Any
) -> OpenAIEndpoint:
    return OpenAIEndpoint(f"openai-{name}", re.compile(path), methods, **options)


ENDPOINTS: Final[tuple[OpenAIEndpoint, ...]] = (
    _build_endpoint("embeddings", _ANY_PREFIX + "embeddings", respond=_embeddings_response),
    _build_endpoint("moderations", _ANY_PREFIX + "moderations", respond=_moderations_response),
    _build_endpoint("images", _ANY_PREFIX + "images/(?:generations|edits|variations)"),
    _build_endpoint(
        "audio",
        _ANY_PREFIX + "audio/(?:speech|transcriptions|translations)",
        unstreamed_completeness_check=_completeness_by_content_type,
        has_transcript=True,
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
        respond=_models_response,
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
