"""Decodes Gemini responses: candidates, usage and the prompt's block reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from llm_proxy.dialects import json_api, lenient_json
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.google import content_decoder, shared_format
from llm_proxy.dialects.google.content_decoder import (
    GROUNDING_FIELD,
    GROUNDING_SOURCE_FIELDS,
    CandidateContentDecoder,
)
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.framing.sse import is_done_message, parse_event
from llm_proxy.turns import Failure, FinishReason, Json, Part, Turn, Usage

_FILTER_REASONS: Final = (
    *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
    *("3", "4", "7", "8"),
)
_ERROR_REASONS: Final = (
    *("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"),
    *("MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE"),
)
_FILTERED_REASON_FIELD: Final = "raiFilteredReason"
"""Imagen's reason for withholding an image: a finish reason, and metadata."""

FINISH_BY_REASON: Final = {
    "STOP": FinishReason.STOP,
    "1": FinishReason.STOP,
    "MAX_TOKENS": FinishReason.LENGTH,
    "2": FinishReason.LENGTH,
    "CONTINUATION": FinishReason.PAUSED,
    _FILTERED_REASON_FIELD: FinishReason.CONTENT_FILTER,
    **dict.fromkeys(_FILTER_REASONS, FinishReason.CONTENT_FILTER),
    **dict.fromkeys(_ERROR_REASONS, FinishReason.ERROR),
}
"""Clients may request enums as numbers; these are the numbers that all of Google's APIs share."""
UNFINISHED_REASONS: Final = ("", "0", "FINISH_REASON_UNSPECIFIED")

PROMPT_FEEDBACK: Final = "promptFeedback"
CHUNK_METADATA: Final = ("createTime", PROMPT_FEEDBACK, "modelStatus")
"""The turn's metadata at the top level of chunks."""

USAGE_WIRE_NAMES: Final = {
    "input": "promptTokenCount",
    "output": "candidatesTokenCount",
    "total": "totalTokenCount",
    "cache_read": "cachedContentTokenCount",
    "reasoning": "thoughtsTokenCount",
}
"""Fields of `Usage` -> fields of `usageMetadata`."""

USAGE_METADATA: Final = ("toolUsePromptTokenCount", "trafficType", "serviceTier")
"""The turn's metadata in `usageMetadata`."""

CANDIDATE_METADATA: Final = (
    *("finishMessage", "safetyRatings", "avgLogprobs", "logprobsResult", "urlContextMetadata"),
    *("continuationToken", "tokenCount"),
)
"""The turn's metadata in its candidate."""

RESPONSE_METADATA: Final = (*USAGE_METADATA, *CHUNK_METADATA)
"""The metadata that all turns of a response share."""

TURN_METADATA: Final = (
    *RESPONSE_METADATA,
    *CANDIDATE_METADATA,
    GROUNDING_FIELD,
    _FILTERED_REASON_FIELD,
)
"""All metadata of a turn, in decoding order."""


_STREAM_CODECS: Final = ("sse", "json-array")


def parse_chunks(response: DialectResponse) -> Iterator[Fields]:
    """The chunks of a response, each without Code Assist's wrapper."""
    yield from map(_unwrap_code_assist, _parse_response_chunks(response))


def stream_message_output_chars(codec: str, message: bytes) -> int:
    """The output characters that a message of a stream adds; signatures count nothing."""
    return sum(
        content_decoder.part_output_chars(part)
        for _, candidate in indexed_candidates(
            _unwrap_code_assist(_parse_stream_message(codec, message))
        )
        for part in lenient_json.array_objects(
            lenient_json.object_fields(candidate.get("content")).get("parts")
        )
    )


def _unwrap_code_assist(document: Fields) -> Fields:
    return lenient_json.object_fields(document.get("response")) or document


def _parse_stream_message(codec: str, message: bytes) -> Fields:
    match codec:
        case "sse":
            return shared_format.decode_event(message)
        case "json-array":
            return _parse_array_element(message)
        case _:
            return {}


def _parse_response_chunks(response: DialectResponse) -> Iterable[Fields]:
    if response.codec_name in _STREAM_CODECS:
        return (
            _parse_stream_message(response.codec_name, message)
            for message in shared_format.rejoin_split_stream_messages(response)
        )
    return shared_format.parse_json_objects(json_api.joined_body(response))


def is_complete_stream_message(message: bytes) -> bool:
    """Whether the last message of a stream is not truncated; comments and `[DONE]` are complete."""
    event = parse_event(message)
    if event.data is not None:
        return bool(shared_format.decode_event(message)) or is_done_message(message)
    return (
        not message.strip()
        or message.lstrip().startswith(b":")
        or bool(shared_format.decode_event(message))
    )


def _parse_array_element(message: bytes) -> Fields:
    if document := lenient_json.parse_object(message):
        return document
    element = message.strip(b" \t\r\n,").removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n,")
    return lenient_json.parse_object(element.removeprefix(b"["))


def indexed_candidates(document: Fields) -> Iterator[tuple[int, Fields]]:
    """The candidates of a chunk with their index; one without an index has its position."""
    for position, candidate in enumerate(lenient_json.array_objects(document.get("candidates"))):
        index = lenient_json.first_integer(candidate.get("index"))
        yield position if index is None else index, candidate


def grounding_without_sources(grounding: Json) -> dict[str, Json]:
    """The fields of a grounding other than its sources, which become citations."""
    fields = lenient_json.object_fields(grounding)
    return dict(
        lenient_json.select_metadata(
            fields, (name for name in fields if name not in GROUNDING_SOURCE_FIELDS)
        )
    )


def has_finish_reason(candidate: Fields) -> bool:
    """Whether a candidate has a finish reason."""
    return lenient_json.value_as_text(candidate.get("finishReason")) not in UNFINISHED_REASONS


def prompt_block_reason(document: Fields) -> str:
    """The reason why the prompt was blocked; empty where it was not."""
    reason = lenient_json.value_as_text(
        lenient_json.object_fields(document.get(PROMPT_FEEDBACK)).get("blockReason")
    )
    return "" if reason in ("0", "BLOCK_REASON_UNSPECIFIED") else reason


class GeminiResponseDecoder:
    """Decodes a response into turns, chunk by chunk."""

    def __init__(self) -> None:
        self._candidates: dict[int, _CandidateDecoder] = {}
        self._id = ""
        self._model = ""
        self._prompt_block_reason = ""
        self._usage: Usage | None = None
        self._failure: Failure | None = None
        self._metadata: dict[str, Json] = {}

    def feed(self, document: Fields) -> None:
        """Add one chunk; an unstreamed response is one chunk."""
        self._id = self._id or lenient_json.value_as_text(document.get("responseId"))
        self._model = self._model or lenient_json.value_as_text(document.get("modelVersion"))
        self._prompt_block_reason = self._prompt_block_reason or prompt_block_reason(document)
        counts = lenient_json.object_fields(document.get("usageMetadata"))
        self._usage = shared_format.decode_usage(counts, USAGE_WIRE_NAMES) or self._usage
        self._metadata.update(lenient_json.select_metadata(counts, USAGE_METADATA))
        self._metadata.update(lenient_json.select_metadata(document, CHUNK_METADATA))
        if error := document.get("error"):
            self._failure = self._failure or shared_format.decode_failure(error)
        for index, candidate in indexed_candidates(document):
            self._candidates.setdefault(index, _CandidateDecoder()).feed(candidate)
        for prediction in lenient_json.array_objects(document.get("predictions")):
            if "bytesBase64Encoded" in prediction or _FILTERED_REASON_FIELD in prediction:
                self._candidates[len(self._candidates)] = _prediction_candidate_decoder(prediction)

    def turns(self) -> tuple[Turn, ...]:
        """One turn per candidate; each has the usage, failure and block reason of the response."""
        candidates = [candidate for _, candidate in sorted(self._candidates.items())]
        if not candidates and (self._prompt_block_reason or self._failure):
            candidates = [_CandidateDecoder()]
        return tuple(self._build_turn(candidate) for candidate in candidates)

    def _build_turn(self, candidate: _CandidateDecoder) -> Turn:
        raw = candidate.finish_raw or self._prompt_block_reason
        finish = candidate.finish_reason() if candidate.finish_raw else None
        return Turn(
            candidate.parts(),
            finish=FinishReason.CONTENT_FILTER
            if finish is None and self._prompt_block_reason
            else finish,
            finish_raw=raw,
            usage=self._usage,
            failure=self._failure,
            id=self._id,
            model=self._model,
            metadata=lenient_json.select_metadata(
                self._metadata | candidate.metadata, TURN_METADATA
            ),
        )


class _CandidateDecoder:
    """Decodes one candidate, chunk by chunk."""

    def __init__(self) -> None:
        self.finish_raw = ""
        self.metadata: dict[str, Json] = {}
        self._content = CandidateContentDecoder()

    def feed(self, candidate: Fields) -> None:
        """Add one chunk's candidate; the last finish counts, since old models repeat `STOP`."""
        if has_finish_reason(candidate):
            self.finish_raw = lenient_json.value_as_text(candidate.get("finishReason"))
        self.metadata.update(lenient_json.select_metadata(candidate, CANDIDATE_METADATA))
        if grounding := grounding_without_sources(candidate.get(GROUNDING_FIELD)):
            self.metadata[GROUNDING_FIELD] = grounding
        self.feed_parts(
            lenient_json.array_objects(
                lenient_json.object_fields(candidate.get("content")).get("parts")
            )
        )
        self._content.feed_grounding(candidate)

    def feed_parts(self, parts: list[Fields]) -> None:
        """Add parts, which may be increments."""
        for part in parts:
            self._content.feed(part)

    def parts(self) -> tuple[Part, ...]:
        """The decoded parts."""
        return self._content.parts()

    def finish_reason(self) -> FinishReason:
        """The finish; `TOOL_CALLS` where Gemini sends `STOP` and the model waits for tools."""
        finish = FINISH_BY_REASON.get(self.finish_raw, FinishReason.OTHER)
        return (
            FinishReason.TOOL_CALLS
            if finish is FinishReason.STOP and self._content.has_client_call
            else finish
        )


def _prediction_candidate_decoder(prediction: Fields) -> _CandidateDecoder:
    """A candidate from a prediction of Imagen: an image, or the reason why it is withheld."""
    candidate = _CandidateDecoder()
    if data := prediction.get("bytesBase64Encoded"):
        image: Json = {"mimeType": prediction.get("mimeType"), "data": data}
        candidate.feed_parts([{"inlineData": image}])
    if filtered := lenient_json.select_metadata(prediction, (_FILTERED_REASON_FIELD,)):
        candidate.finish_raw = _FILTERED_REASON_FIELD
        candidate.metadata.update(filtered)
    return candidate
