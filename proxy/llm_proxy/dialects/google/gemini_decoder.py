"""What Gemini answers, chunk by chunk: candidates that grow, counts, a verdict on the prompt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from llm_proxy.dialects import json_api, lenient_json
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.google import api, content_decoder
from llm_proxy.dialects.google.content_decoder import GROUNDING, SUPPORT, Content
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.framing.sse import is_done, read_event
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


def documents(response: Response) -> Iterator[Fields]:
    """The chunks of a response, each the document that its clients would read."""
    yield from map(_unwrapped, _said(response))


def says(codec: str, message: bytes) -> int:
    """How many characters a message of a stream adds to what was said: a seal adds none."""
    return sum(
        content_decoder.says(part)
        for _, candidate in candidates(_unwrapped(_of_message(codec, message)))
        for part in lenient_json.objects(lenient_json.fields(candidate.get("content")).get("parts"))
    )


def _unwrapped(document: Fields) -> Fields:
    return lenient_json.fields(document.get("response")) or document  # Code Assist wraps


def _of_message(codec: str, message: bytes) -> Fields:
    match codec:
        case "sse":
            return api.event(message)
        case "json-array":
            return _of_element(message)
        case _:
            return {}


def _said(response: Response) -> Iterable[Fields]:
    if response.codec in _STREAMED:
        return (_of_message(response.codec, it) for it in api.messages(response))
    return api.documents(json_api.body(response))


def is_readable(message: bytes) -> bool:
    """Whether the last message of a stream is no half event; comments and a `[DONE]` are none."""
    event = read_event(message)
    if event.data is not None:
        return bool(api.event(message)) or is_done(message)
    return not message.strip() or message.lstrip().startswith(b":") or bool(api.event(message))


def _of_element(message: bytes) -> Fields:
    """An element without the commas and brackets of the array around it."""
    if found := lenient_json.document(message):
        return found
    inner = message.strip(b" \t\r\n,").removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n,")
    return lenient_json.document(inner.removeprefix(b"["))


def candidates(document: Fields) -> Iterator[tuple[int, Fields]]:
    """The candidates of a chunk under their index, which may be left out where there is one."""
    for position, candidate in enumerate(lenient_json.objects(document.get("candidates"))):
        index = lenient_json.count(candidate.get("index"))
        yield position if index is None else index, candidate


def grounded(grounding: Json) -> dict[str, Json]:
    """What a grounding says beside the sources, which are citations."""
    said = lenient_json.fields(grounding)
    return dict(lenient_json.metadata(said, (name for name in said if name not in SUPPORT)))


def is_finished(candidate: Fields) -> bool:
    """Whether a candidate says why it ended."""
    return lenient_json.words(candidate.get("finishReason")) not in UNFINISHED


def block_reason(document: Fields) -> str:
    """Why the prompt was blocked; empty where it was not."""
    reason = lenient_json.words(lenient_json.fields(document.get(FEEDBACK)).get("blockReason"))
    return "" if reason in ("0", "BLOCK_REASON_UNSPECIFIED") else reason


class Answer:
    """The turns of a response, as its chunks come."""

    def __init__(self) -> None:
        self._candidates: dict[int, _Candidate] = {}
        self._id = ""
        self._model = ""
        self._blocked = ""
        self._usage: Usage | None = None
        self._failure: Failure | None = None
        self._metadata: dict[str, Json] = {}

    def take(self, document: Fields) -> None:
        """Read one chunk; a response that does not stream is the only one."""
        self._id = self._id or lenient_json.words(document.get("responseId"))
        self._model = self._model or lenient_json.words(document.get("modelVersion"))
        self._blocked = self._blocked or block_reason(document)
        counts = lenient_json.fields(document.get("usageMetadata"))
        self._usage = api.usage(counts, COUNTS) or self._usage
        self._metadata.update(lenient_json.metadata(counts, OF_USAGE))
        self._metadata.update(lenient_json.metadata(document, OF_CHUNK))
        if error := document.get("error"):
            self._failure = self._failure or api.failure(error)
        for index, candidate in candidates(document):
            self._candidates.setdefault(index, _Candidate()).take(candidate)
        for prediction in lenient_json.objects(document.get("predictions")):
            if "bytesBase64Encoded" in prediction or _FILTERED in prediction:
                self._candidates[len(self._candidates)] = _predicted(prediction)

    def turns(self) -> tuple[Turn, ...]:
        """What was said; counts, errors and the verdict on the prompt belong to each candidate."""
        said = [candidate for _, candidate in sorted(self._candidates.items())]
        if not said and (self._blocked or self._failure):
            said = [_Candidate()]
        return tuple(self._turn(candidate) for candidate in said)

    def _turn(self, candidate: _Candidate) -> Turn:
        raw = candidate.finish_raw or self._blocked
        finish = candidate.finish() if candidate.finish_raw else None
        return Turn(
            candidate.parts(),
            finish=Finish.CONTENT_FILTER if finish is None and self._blocked else finish,
            finish_raw=raw,
            usage=self._usage,
            failure=self._failure,
            id=self._id,
            model=self._model,
            metadata=lenient_json.metadata(self._metadata | candidate.metadata, OF_TURN),
        )


class _Candidate:
    """One candidate, as its chunks come."""

    def __init__(self) -> None:
        self.finish_raw = ""
        self.metadata: dict[str, Json] = {}
        self._content = Content()

    def take(self, candidate: Fields) -> None:
        """Read one chunk's part of it; old models say `STOP` in every chunk, so the last counts."""
        if is_finished(candidate):
            self.finish_raw = lenient_json.words(candidate.get("finishReason"))
        self.metadata.update(lenient_json.metadata(candidate, OF_CANDIDATE))
        if rest := grounded(candidate.get(GROUNDING)):
            self.metadata[GROUNDING] = rest
        self.show(lenient_json.objects(lenient_json.fields(candidate.get("content")).get("parts")))
        self._content.ground(candidate)

    def show(self, parts: list[Fields]) -> None:
        """Read parts, which may be increments."""
        for part in parts:
            self._content.take(part)

    def parts(self) -> tuple[Part, ...]:
        """What it says."""
        return self._content.parts()

    def finish(self) -> Finish:
        """Gemini says `STOP` also where the model waits for its client's tools."""
        finish = FINISH.get(self.finish_raw, Finish.OTHER)
        return Finish.TOOL_CALLS if finish is Finish.STOP and self._content.calls else finish


def _predicted(prediction: Fields) -> _Candidate:
    """An image of Imagen's, or why there is none."""
    candidate = _Candidate()
    if data := prediction.get("bytesBase64Encoded"):
        image: Json = {"mimeType": prediction.get("mimeType"), "data": data}
        candidate.show([{"inlineData": image}])
    if filtered := lenient_json.metadata(prediction, (_FILTERED,)):
        candidate.finish_raw = _FILTERED
        candidate.metadata.update(filtered)
    return candidate
