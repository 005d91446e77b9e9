"""Decodes Gemini responses: candidates, usage and the prompt's block reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from llm_proxy.dialects import json_api, lenient_json
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.google import content_decoder, shared_format
from llm_proxy.dialects.google.content_decoder import GROUNDING, SUPPORT, CandidateContentDecoder
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.framing.sse import is_done, parse_event
from llm_proxy.turns import Failure, Finish, Json, Part, Turn, Usage

_FILTERS: Final = (
    *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
    *("3", "4", "7", "8"),
)
_MISTAKES: Final = (
    *("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"),
    *("MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE"),
)
_FILTERED: Final = "raiFilteredReason"
"""Why there is no image: a finish, and metadata."""

FINISH: Final = {
    "STOP": Finish.STOP,
    "1": Finish.STOP,
    "MAX_TOKENS": Finish.LENGTH,
    "2": Finish.LENGTH,
    "CONTINUATION": Finish.PAUSED,
    _FILTERED: Finish.CONTENT_FILTER,
    **dict.fromkeys(_FILTERS, Finish.CONTENT_FILTER),
    **dict.fromkeys(_MISTAKES, Finish.ERROR),
}
"""Clients may ask for enums as numbers; of these the ones that all of Google's APIs share."""
UNFINISHED: Final = ("", "0", "FINISH_REASON_UNSPECIFIED")

FEEDBACK: Final = "promptFeedback"
OF_CHUNK: Final = ("createTime", FEEDBACK, "modelStatus")
"""The metadata of a turn that stands in its chunks."""

COUNTS: Final = {
    "input": "promptTokenCount",
    "output": "candidatesTokenCount",
    "total": "totalTokenCount",
    "cache_read": "cachedContentTokenCount",
    "reasoning": "thoughtsTokenCount",
}
"""The counts of a usage, each with the wire's word."""

OF_USAGE: Final = ("toolUsePromptTokenCount", "trafficType", "serviceTier")
"""The metadata of a turn that stands beside its counts."""

OF_CANDIDATE: Final = (
    *("finishMessage", "safetyRatings", "avgLogprobs", "logprobsResult", "urlContextMetadata"),
    *("continuationToken", "tokenCount"),
)
"""The metadata of a turn that stands in its candidate."""

OF_ANSWER: Final = (*OF_USAGE, *OF_CHUNK)
"""The metadata that all turns of an answer share."""

OF_TURN: Final = (*OF_ANSWER, *OF_CANDIDATE, GROUNDING, _FILTERED)
"""All metadata of a turn, in the order in which it is read."""


_STREAMED: Final = ("sse", "json-array")


def parse_documents(response: DialectResponse) -> Iterator[Fields]:
    """The chunks of a response, each the document that its clients would read."""
    yield from map(_unwrap_response, _response_of_message(response))


def message_output_chars(codec: str, message: bytes) -> int:
    """How many characters a message of a stream adds to what was said: a seal adds none."""
    return sum(
        content_decoder.part_output_chars(part)
        for _, candidate in candidates_by_index(
            _unwrap_response(_documents_of_message(codec, message))
        )
        for part in lenient_json.object_items(
            lenient_json.object_fields(candidate.get("content")).get("parts")
        )
    )


def _unwrap_response(document: Fields) -> Fields:
    return lenient_json.object_fields(document.get("response")) or document  # Code Assist wraps


def _documents_of_message(codec: str, message: bytes) -> Fields:
    match codec:
        case "sse":
            return shared_format.decode_event(message)
        case "json-array":
            return _element_text(message)
        case _:
            return {}


def _response_of_message(response: DialectResponse) -> Iterable[Fields]:
    if response.codec in _STREAMED:
        return (
            _documents_of_message(response.codec, join_split_message)
            for join_split_message in shared_format.join_split_messages(response)
        )
    return shared_format.parse_documents(json_api.joined_body(response))


def is_complete_message(message: bytes) -> bool:
    """Whether the last message of a stream is no half event; comments and a `[DONE]` are none."""
    event = parse_event(message)
    if event.data is not None:
        return bool(shared_format.decode_event(message)) or is_done(message)
    return (
        not message.strip()
        or message.lstrip().startswith(b":")
        or bool(shared_format.decode_event(message))
    )


def _element_text(message: bytes) -> Fields:
    if found := lenient_json.parse_object(message):
        return found
    inner = message.strip(b" \t\r\n,").removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n,")
    return lenient_json.parse_object(inner.removeprefix(b"["))


def candidates_by_index(document: Fields) -> Iterator[tuple[int, Fields]]:
    """The candidates of a chunk under their index, which may be left out where there is one."""
    for position, candidate in enumerate(lenient_json.object_items(document.get("candidates"))):
        index = lenient_json.first_count(candidate.get("index"))
        yield position if index is None else index, candidate


def grounding_metadata(grounding: Json) -> dict[str, Json]:
    """What a grounding says beside the sources, which are citations."""
    fields = lenient_json.object_fields(grounding)
    return dict(
        lenient_json.named_metadata(fields, (name for name in fields if name not in SUPPORT))
    )


def has_finish_reason(candidate: Fields) -> bool:
    """Whether a candidate says why it ended."""
    return lenient_json.printable_text(candidate.get("finishReason")) not in UNFINISHED


def prompt_block_reason(document: Fields) -> str:
    """Why the prompt was blocked; empty where it was not."""
    reason = lenient_json.printable_text(
        lenient_json.object_fields(document.get(FEEDBACK)).get("blockReason")
    )
    return "" if reason in ("0", "BLOCK_REASON_UNSPECIFIED") else reason


class GeminiResponseDecoder:
    """The turns of a response, as its chunks come."""

    def __init__(self) -> None:
        self._candidates: dict[int, _CandidateDecoder] = {}
        self._id = ""
        self._model = ""
        self._prompt_block_reason = ""
        self._usage: Usage | None = None
        self._failure: Failure | None = None
        self._metadata: dict[str, Json] = {}

    def feed(self, document: Fields) -> None:
        """Read one chunk; a response that does not stream is the only one."""
        self._id = self._id or lenient_json.printable_text(document.get("responseId"))
        self._model = self._model or lenient_json.printable_text(document.get("modelVersion"))
        self._prompt_block_reason = self._prompt_block_reason or prompt_block_reason(document)
        counts = lenient_json.object_fields(document.get("usageMetadata"))
        self._usage = shared_format.decode_usage(counts, COUNTS) or self._usage
        self._metadata.update(lenient_json.named_metadata(counts, OF_USAGE))
        self._metadata.update(lenient_json.named_metadata(document, OF_CHUNK))
        if error := document.get("error"):
            self._failure = self._failure or shared_format.decode_failure(error)
        for index, candidate in candidates_by_index(document):
            self._candidates.setdefault(index, _CandidateDecoder()).feed(candidate)
        for prediction in lenient_json.object_items(document.get("predictions")):
            if "bytesBase64Encoded" in prediction or _FILTERED in prediction:
                self._candidates[len(self._candidates)] = _decode_prediction(prediction)

    def turns(self) -> tuple[Turn, ...]:
        """What was said; counts, errors and the verdict on the prompt belong to each candidate."""
        items = [candidate for _, candidate in sorted(self._candidates.items())]
        if not items and (self._prompt_block_reason or self._failure):
            items = [_CandidateDecoder()]
        return tuple(self._turn_of(candidate) for candidate in items)

    def _turn_of(self, candidate: _CandidateDecoder) -> Turn:
        raw = candidate.finish_raw or self._prompt_block_reason
        finish = candidate.finish() if candidate.finish_raw else None
        return Turn(
            candidate.result(),
            finish=Finish.CONTENT_FILTER
            if finish is None and self._prompt_block_reason
            else finish,
            finish_raw=raw,
            usage=self._usage,
            failure=self._failure,
            id=self._id,
            model=self._model,
            metadata=lenient_json.named_metadata(self._metadata | candidate.metadata, OF_TURN),
        )


class _CandidateDecoder:
    """One candidate, as its chunks come."""

    def __init__(self) -> None:
        self.finish_raw = ""
        self.metadata: dict[str, Json] = {}
        self._content = CandidateContentDecoder()

    def feed(self, candidate: Fields) -> None:
        """Read one chunk's part of it; old models say `STOP` in every chunk, so the last counts."""
        if has_finish_reason(candidate):
            self.finish_raw = lenient_json.printable_text(candidate.get("finishReason"))
        self.metadata.update(lenient_json.named_metadata(candidate, OF_CANDIDATE))
        if rest := grounding_metadata(candidate.get(GROUNDING)):
            self.metadata[GROUNDING] = rest
        self.feed_parts(
            lenient_json.object_items(
                lenient_json.object_fields(candidate.get("content")).get("parts")
            )
        )
        self._content.feed_grounding(candidate)

    def feed_parts(self, parts: list[Fields]) -> None:
        """Read parts, which may be increments."""
        for part in parts:
            self._content.feed(part)

    def result(self) -> tuple[Part, ...]:
        """What it says."""
        return self._content.result()

    def finish(self) -> Finish:
        """Gemini says `STOP` also where the model waits for its client's tools."""
        finish = FINISH.get(self.finish_raw, Finish.OTHER)
        return Finish.TOOL_CALLS if finish is Finish.STOP and self._content.calls else finish


def _decode_prediction(prediction: Fields) -> _CandidateDecoder:
    """An image of Imagen's, or why there is none."""
    candidate = _CandidateDecoder()
    if data := prediction.get("bytesBase64Encoded"):
        image: Json = {"mimeType": prediction.get("mimeType"), "data": data}
        candidate.feed_parts([{"inlineData": image}])
    if filtered := lenient_json.named_metadata(prediction, (_FILTERED,)):
        candidate.finish_raw = _FILTERED
        candidate.metadata.update(filtered)
    return candidate
