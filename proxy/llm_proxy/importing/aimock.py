"""Imports aimock fixtures as scenarios; fixtures hold neither requests nor bytes.

A file of fixtures becomes a file of scenarios: the first fixture that matches responds, and so does
the first scenario.  Texts of a fixture's match are searched literally.  A condition that a scenario
cannot have is never dropped: the fixture would match requests that it was not written for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from llm_proxy.dialects import lenient_json
from llm_proxy.errors import printable_excerpt
from llm_proxy.importing.fields import nonnegative_number
from llm_proxy.importing.source import (
    ImportLoss,
    NotImportable,
    ParsedFile,
    RefusedItem,
    UnreadableFile,
)
from llm_proxy.pacing.distributions import (
    DurationDistribution,
    FixedDistribution,
    UniformDistribution,
    format_number,
)
from llm_proxy.pacing.pace import ModelledPace
from llm_proxy.scenario.documents.document import ANY_TURN
from llm_proxy.scenario.documents.loading import MAX_FILE_BYTES, parse_scenario_file
from llm_proxy.scenario.recorded import literal_pattern, yaml_block
from llm_proxy.scenario.scripting import json_stringify
from llm_proxy.turns import Json

TITLE: Final = "aimock"
"""The tool's name for messages."""

Fields = dict[str, Json]

MAX_FIXTURES: Final = 10_000
"""Limit for one file."""
MAX_SCENARIO_CHARS: Final = 1024 * 1024
"""Limit of a scenario's JSON."""

_MAX_QUOTE_CHARS: Final = 80
_MAX_REASON_CHARS: Final = 500
"""Limit of a reason, which may quote the file."""
_MAX_LISTED_FIXTURES: Final = 10
"""Fixtures that a comment lists."""
_MAX_DEPTH: Final = 64
"""Nesting levels of a scenario's values."""
_COMMENT_PREFIXES: Final = ("$", "_")
"""Prefixes of field names that are comments."""
_STREAM_FIELDS: Final = (
    "latency", "chunkSize", "streamingProfile", "recordedTimings", "truncateAfterChunks",
    "disconnectAfterMs",
)  # fmt: skip
_KNOWN_FIELDS: Final = (
    *_STREAM_FIELDS, "match", "response", "replaySpeed", "chaos", "metadata",
)  # fmt: skip

# The conditions on requests

_GLOB_CHARS: Final = re.compile(r"([*?\[])")
_LAST_MESSAGE_PATH: Final = "$['messages','input','contents'][-1]"
"""JSONPath of the last message, in every dialect that has a list of them."""
_RESULT_TEXT_PATH: Final = f"{_LAST_MESSAGE_PATH}..['content','output','text','response']"
_PATH_OF_EQUAL_TEXT: Final[Mapping[str, str]] = {
    "toolCallId": f"{_LAST_MESSAGE_PATH}..['tool_call_id','call_id','tool_use_id','toolUseId']",
    "toolName": "$['tools','toolConfig']..name",
    "responseFormat": "$['response_format','text']..type",
}
"""JSONPaths of the values that must equal a field of a fixture's match."""
_MATCH_LOSSES: Final[Mapping[str, ImportLoss]] = {
    "sequenceIndex": ImportLoss(
        "sequence",
        "sequenceIndex is imported as a turn number; unlike in aimock, the turns are counted again "
        "in each conversation",
    ),
    "turnIndex": ImportLoss(
        "nearest turn",
        "turnIndex matches only the given turn; aimock would also use the fixture for other turns "
        "if no other fixture is nearer",
    ),
    "model": ImportLoss(
        "dated models",
        "model matches only the exact name; to match names with a date suffix as aimock does, use "
        "a pattern such as gpt-5-20*",
    ),
    "context": ImportLoss(
        "context",
        "context is converted to a session name; clients must send the header "
        "x-llm-proxy-session instead of X-AIMock-Context",
    ),
}

# The response

_ENDLESS_FAILURE_COUNT: Final = 1_000_000
"""Failures of a fixture that always fails."""
_RATE_LIMIT_STATUS: Final = 429
_DEFAULT_ERROR_STATUS: Final = 500
_ERROR_STATUSES: Final = range(400, 600)
_UNSUPPORTED_CONTENT: Final[Mapping[str, str]] = {
    "embedding": "an embedding",
    "image": "an image",
    "images": "images",
    "audio": "audio",
    "transcription": "a transcription",
    "video": "a video",
    "json": "raw JSON",
    "live": "a live session",
}
"""Response fields that no scenario can represent, with their description."""
_ERROR_FIELDS: Final = ("type", "code", "param")
"""Fields of an error beside its message."""
_CONVERTED_FIELDS: Final = (
    "content", "toolCalls", "blocks", "reasoning", "reasoningSignature", "redactedThinking",
    "usage", "finishReason",
)  # fmt: skip
_USAGE_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "prompt_tokens": {"": "input"},
    "input_tokens": {"": "input"},
    "promptTokenCount": {"": "input"},
    "completion_tokens": {"": "output"},
    "output_tokens": {"": "output"},
    "candidatesTokenCount": {"": "output"},
    "total_tokens": {"": "total"},
    "totalTokenCount": {"": "total"},
    "prompt_tokens_details": {"cached_tokens": "cache_read", "cache_write_tokens": "cache_write"},
    "completion_tokens_details": {"reasoning_tokens": "reasoning"},
}
"""The meaning of a usage field, or of the details in it, by name."""
_COSTS: Final = ImportLoss("costs", "only the token counts in usage are imported")
_RESPONSE_ENVELOPE: Final = ImportLoss(
    "envelope",
    "the IDs, models, roles and fingerprints of responses are not imported; llm-proxy generates "
    "new values",
)
_WEB_SEARCHES: Final = ImportLoss(
    "searches", "webSearches is not imported; scenarios do not support it"
)
_UNKNOWN_FIELDS: Final = ImportLoss("fields", "unknown fields are not imported")
_RESPONSE_LOSSES: Final = (_COSTS, _RESPONSE_ENVELOPE, _WEB_SEARCHES, _UNKNOWN_FIELDS)
"""In the order in which they are listed."""
_ENDLESS_ERROR: Final = ImportLoss(
    "permanent error",
    "the first million requests get this error, in the error format of the requested API; later "
    "requests get an empty response",
)
_LOSS_BY_FIELD: Final[Mapping[str, ImportLoss]] = {
    **dict.fromkeys(
        ("id", "created", "model", "role", "systemFingerprint", "provider", "nativeFinishReason"),
        _RESPONSE_ENVELOPE,
    ),
    "webSearches": _WEB_SEARCHES,
}
"""The losses of fields that are not converted; other ones are unknown."""

# Streaming and faults

_DEFAULT_CHUNK_CHARS: Final = 20
"""Characters of a chunk without `chunkSize`."""
_FAULT_BY_CHAOS_FIELD: Final = {
    "latencyMs": ("latency,by", "ms"),
    "dropRate": ("status,code=500,probability", ""),
    "malformedRate": ("malformed-json,probability", ""),
    "rateLimitRate": ("rate-limit,probability", ""),
    "disconnectRate": ("close,probability", ""),
}
"""The beginning of the fault's rule, and the unit of its number."""
_RECORDED_GAPS: Final = ImportLoss(
    "gaps", "all recorded delays between chunks are replaced by the mean delay"
)
_NONSTREAM_TIMES: Final = ImportLoss(
    "stream times", "streamingProfile and recordedTimings also delay non-streamed responses"
)
_CHUNK_COUNTS: Final = ImportLoss(
    "chunks",
    "truncateAfterChunks counts stream events instead of chunks; the number of events in a "
    "response depends on the dialect",
)


@dataclass(frozen=True, slots=True)
class ConvertedFixture:
    """A fixture that was converted; its number in the file from 1, and its scenario's ID."""

    number: int
    id: str
    losses: tuple[ImportLoss, ...]
    """What the scenario lacks, or represents otherwise."""


@dataclass(frozen=True, slots=True)
class FixtureScenarios:
    """A file of fixtures, converted to a file of scenarios."""

    yaml_text: str
    """YAML with comments; empty where no fixture was converted."""
    results: tuple[ConvertedFixture | RefusedItem, ...]
    """The result for each fixture, in order."""


def is_fixture_file(parsed_file: ParsedFile) -> bool:
    """Whether a file holds aimock fixtures."""
    match parsed_file.document:
        case {"fixtures": [{"match": _}, *_]}:
            return True
        case _:
            return False


def convert_fixtures(fixtures: Sequence[Any], id_prefix: str, source_name: str) -> FixtureScenarios:
    """The scenarios of fixtures; `source_name` names their file in comments.

    Raises `UnreadableFile` where they exceed the limits of a scenario file.
    """
    if len(fixtures) > MAX_FIXTURES:
        raise UnreadableFile(f"the file has more than {MAX_FIXTURES:,} fixtures; split it")
    source_name = printable_excerpt(source_name, _MAX_QUOTE_CHARS)
    results: list[ConvertedFixture | RefusedItem] = []
    texts: list[str] = []
    for number, fixture in enumerate(fixtures, 1):
        scenario_id, description = f"{id_prefix}-{number}", f"Fixture {number} of {source_name}"
        try:
            scenario, losses = _convert_fixture(fixture, scenario_id, description)
            texts.append(_scenario_yaml(scenario))
            results.append(ConvertedFixture(number, scenario_id, losses))
        except NotImportable as error:
            results.append(RefusedItem(number, printable_excerpt(str(error), _MAX_REASON_CHARS)))
    if not texts:
        return FixtureScenarios("", tuple(results))
    text = "".join((*_header_comment_lines(source_name, results), "scenarios:\n", *texts))
    if len(text.encode()) > MAX_FILE_BYTES:
        raise UnreadableFile(
            f"the converted scenarios are larger than {MAX_FILE_BYTES >> 20} MiB; split the file"
        )
    return FixtureScenarios(text, tuple(results))


def _header_comment_lines(
    source_name: str, results: Sequence[ConvertedFixture | RefusedItem]
) -> Iterator[str]:
    yield f"# Generated by llm-proxy import from {source_name} (aimock). You can edit this file.\n"
    by_loss: dict[ImportLoss, list[int]] = {}
    for result in results:
        for loss in result.losses if isinstance(result, ConvertedFixture) else ():
            by_loss.setdefault(loss, []).append(result.number)
    for loss, numbers in by_loss.items():
        more = ", …" if len(numbers) > _MAX_LISTED_FIXTURES else ""
        listed = ", ".join(map(str, numbers[:_MAX_LISTED_FIXTURES])) + more
        yield f"# Fixture {listed}: {loss.effect}.\n"
    for result in results:
        if isinstance(result, RefusedItem):
            yield f"# Fixture {result.number} was not imported: {result.reason}.\n"


def _convert_fixture(
    fixture: Any, scenario_id: str, description: str
) -> tuple[Fields, tuple[ImportLoss, ...]]:
    """The scenario of a fixture, and the losses.  Raises `NotImportable`."""
    if not isinstance(fixture, dict) or not isinstance(fixture.get("match"), dict):
        raise NotImportable("the fixture has no match object")
    if _nesting_depth(fixture) > _MAX_DEPTH:
        raise NotImportable(f"the fixture is nested more than {_MAX_DEPTH} levels deep")
    match_fields, match_losses = _convert_match(fixture["match"])
    step, step_losses = _convert_response(fixture.get("response"))
    timing, timing_losses = ({}, []) if "failure_status" in step else _convert_timing(fixture)
    if _nesting_depth(step) > _MAX_DEPTH:
        raise NotImportable(
            f"the arguments of a tool call are nested more than {_MAX_DEPTH} levels deep"
        )
    losses = [*match_losses, *step_losses, *timing_losses]
    if any(
        name not in _KNOWN_FIELDS and not name.startswith(_COMMENT_PREFIXES) for name in fixture
    ):
        losses.append(_UNKNOWN_FIELDS)
    if user_message := lenient_json.str_or_empty(fixture["match"].get("userMessage")).strip():
        first_line = user_message.splitlines()[0].strip()
        description += f": {printable_excerpt(first_line, _MAX_QUOTE_CHARS)}"
    fields: Fields = {
        "id": scenario_id,
        "description": description,
        "match": match_fields,
        **timing,
        "turns": [{"turn": ANY_TURN, **step}],
    }
    return fields, tuple(dict.fromkeys(losses))


def _scenario_yaml(scenario: Fields) -> str:
    """A scenario as an item of a YAML list.

    Raises `NotImportable` for one that would not load.
    """
    if len(lenient_json.compact_json(scenario)) > MAX_SCENARIO_CHARS:
        raise NotImportable(f"the fixture is larger than {MAX_SCENARIO_CHARS >> 20} MiB")
    yaml_text = yaml_block({"scenarios": [scenario]})
    loaded = parse_scenario_file("scenario.yaml", yaml_text.encode())
    problems = [*loaded.mistakes, *(warning for warning in loaded.warnings if warning.fails_lint)]
    if problems:
        raise NotImportable(f"the fixture cannot be converted to a scenario: {problems[0].message}")
    return yaml_text.partition("\n")[2]


def _nesting_depth(value: Json, outer_depth: int = 0) -> int:
    """The nesting depth of a value; counting stops beyond `_MAX_DEPTH`."""
    if outer_depth > _MAX_DEPTH or not isinstance(value, dict | list):
        return outer_depth
    children = value.values() if isinstance(value, dict) else value
    return max(
        (_nesting_depth(content, outer_depth + 1) for content in children), default=outer_depth + 1
    )


def _convert_match(fields: Fields) -> tuple[Fields, list[ImportLoss]]:
    """The scenario's match, and the losses.  Raises `NotImportable`."""
    present = {name: value for name, value in fields.items() if value is not None}
    turn: Fields = {}
    losses: list[ImportLoss] = []
    for name in ("turnIndex", "sequenceIndex"):
        if (index := present.pop(name, None)) is None:
            continue
        if isinstance(index, bool) or not isinstance(index, int) or index < 0:
            raise NotImportable(f"{name} must be a non-negative integer")
        if turn:
            raise NotImportable("match sets both turnIndex and sequenceIndex; remove one of them")
        follows_tool_result = name == "sequenceIndex" and (
            fields.get("hasToolResult") or "toolCallId" in fields or "toolResultContains" in fields
        )
        turn = {"turn": index + (2 if follows_tool_result else 1)}
        losses.append(_MATCH_LOSSES[name])
    match_fields: Fields = {}
    conditions: Fields = {}
    for name, value in present.items():
        field_match = _convert_match_field(name, value)
        conditions |= lenient_json.object_fields(field_match.pop("json", None))
        if any(match_fields.get(key, item) != item for key, item in field_match.items()):
            raise NotImportable(
                "`match` requires tool results and also excludes them, so no request can match"
            )
        match_fields |= field_match
        if name in _MATCH_LOSSES:
            losses.append(_MATCH_LOSSES[name])
    return {**match_fields, **turn, **({"json": conditions} if conditions else {})}, losses


def _convert_match_field(name: str, value: Json) -> Fields:
    """Fields of the match; `json` holds conditions on the request's JSON by JSONPath."""
    match name:
        case "userMessage":
            pattern = literal_pattern(_require_text(name, value))
            return {"user": pattern} if pattern else {}
        case "systemMessage":
            # One text, or several that must all occur, in any order.
            values = value if isinstance(value, list) else [value]
            texts = [
                literal_pattern(text) for item in values if (text := _require_text(name, item))
            ]
            if len(texts) > 1:
                return {"system": r"(?s)\A" + "".join(f"(?=.*{text})" for text in texts)}
            return {"system": texts[0]} if texts else {}
        case "model" | "context":
            text = _require_text(name, value)
            if not text:
                raise NotImportable(f"{name} is empty, so no request can match")
            return {"model" if name == "model" else "session": _GLOB_CHARS.sub(r"[\1]", text)}
        case "endpoint" if value == "chat":
            return {}
        case "endpoint" | "inputText":
            endpoint = _require_text(name, value) if name == "endpoint" else "embeddings"
            raise NotImportable(
                f"unsupported endpoint '{printable_excerpt(endpoint, _MAX_QUOTE_CHARS)}'; "
                "scenarios respond only to chat requests"
            )
        case "hasToolResult":
            if not isinstance(value, bool):
                raise NotImportable("hasToolResult must be true or false")
            return {"tool_results": value}
        case "toolResultContains":
            pattern = literal_pattern(_require_text(name, value))
            condition: Fields = {_RESULT_TEXT_PATH: {"matches": pattern}} if pattern else {}
            return {"tool_results": True, "json": condition}
        case "toolCallId" | "toolName" | "responseFormat":
            condition = {_PATH_OF_EQUAL_TEXT[name]: {"equals": _require_text(name, value)}}
            needs_result: Fields = {"tool_results": True} if name == "toolCallId" else {}
            return {**needs_result, "json": condition}
        case _:
            shown_name = printable_excerpt(name, _MAX_QUOTE_CHARS)
            raise NotImportable(f"unsupported match condition '{shown_name}'")


def _require_text(name: str, value: Json) -> str:
    if not isinstance(value, str):
        raise NotImportable(f"{name} must be text")
    return value


def _convert_response(response: Json) -> tuple[Fields, list[ImportLoss]]:
    """A scenario step without `turn`, and the losses.  Raises `NotImportable`."""
    if not isinstance(response, dict):
        raise NotImportable("the fixture has no response")
    if isinstance(error := response.get("error"), dict):
        return _failure_step(response, error), [_ENDLESS_ERROR]
    for name, description in _UNSUPPORTED_CONTENT.items():
        if name in response:
            raise NotImportable(
                f"the response contains {description}; "
                "scenarios support only text, reasoning and tool calls"
            )
    fields = _content_fields(response)
    reasoning: list[Json] = [
        {"provider_metadata": {"anthropic": {"redactedData": item}}}
        for item in lenient_json.array_items(response.get("redactedThinking"))
        if isinstance(item, str) and item
    ]
    if text := lenient_json.str_or_empty(response.get("reasoning")):
        block: Fields = {"text": text}
        if signature := lenient_json.str_or_empty(response.get("reasoningSignature")):
            block["provider_metadata"] = {"anthropic": {"signature": signature}}
        reasoning.append(block)
    if reasoning:
        fields["reasoning"] = reasoning
    if finish := lenient_json.str_or_empty(response.get("finishReason")):
        fields["finish_reason"] = finish
    usage: Fields = {}
    losses: set[ImportLoss] = set()
    for name, value in lenient_json.object_fields(response.get("usage")).items():
        details = {**lenient_json.object_fields(value), "": value}
        for detail, meaning in _USAGE_NAMES.get(name, {}).items():
            number = lenient_json.first_integer(details.get(detail))
            if number is not None and number >= 0:
                usage[meaning] = number
        if name not in _USAGE_NAMES:
            losses.add(_COSTS)
    if usage:
        fields["usage"] = usage
    for name, value in response.items():
        if value is not None and name not in _CONVERTED_FIELDS:
            losses.add(_LOSS_BY_FIELD.get(name, _UNKNOWN_FIELDS))
    return {"response": fields}, sorted(losses, key=_RESPONSE_LOSSES.index)


def _failure_step(response: Fields, error: Fields) -> Fields:
    value = response.get("status")
    status = _DEFAULT_ERROR_STATUS if value is None else lenient_json.first_integer(value)
    if status is None or status not in _ERROR_STATUSES:
        raise NotImportable("status must be from 400 to 599 for an error")
    fields: Fields = {item: error[item] for item in _ERROR_FIELDS if error.get(item) is not None}
    step: Fields = {
        "failures_before_success": _ENDLESS_FAILURE_COUNT,
        "failure_status": "model_error",
    }
    if status == _RATE_LIMIT_STATUS:
        retry_after_s = nonnegative_number(response.get("retryAfter"))
        step["failure_status"] = "rate_limit"
        step["failure_retry_after_ms"] = 1000 if retry_after_s is None else retry_after_s * 1000
    else:
        fields = {"status": status, **fields}
    if message := lenient_json.str_or_empty(error.get("message")):
        step["failure_message"] = message
    if fields:
        step["failure_error"] = fields
    return {**step, "response": {"kind": "text", "assistant_text": ""}}


def _content_fields(response: Fields) -> Fields:
    """Parts in order, tool calls after an optional text, or a text."""
    if blocks := lenient_json.array_items(response.get("blocks")):
        return {"kind": "parts", "parts": [_content_part(block) for block in blocks]}
    content = response.get("content")
    text = content if content is None or isinstance(content, str) else json_stringify(content)
    if calls := lenient_json.array_items(response.get("toolCalls")):
        leading_text: Fields = {"assistant_text": text} if text else {}
        return {"kind": "tool-call", **leading_text, "tool_calls": [*map(_tool_call, calls)]}
    if text is None:
        raise NotImportable("the response has no content, toolCalls, blocks or error")
    return {"kind": "text", "assistant_text": text}


def _content_part(block: Json) -> Fields:
    match block:
        case {"type": "text", "text": str(text)}:
            return {"part": "text", "text": text}
        case {"type": "toolCall"}:
            return {"part": "tool-call", **_tool_call(block)}
        case _:
            raise NotImportable("the response contains a block that is neither text nor a toolCall")


def _tool_call(call: Json) -> Fields:
    fields = lenient_json.object_fields(call)
    name = lenient_json.str_or_empty(fields.get("name"))
    if not name:
        raise NotImportable("a tool call has no name")
    arguments = fields.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments.strip() or "{}")
        except ValueError:
            arguments = None
    if not isinstance(arguments, dict):
        raise NotImportable(
            f"the arguments of {printable_excerpt(name, _MAX_QUOTE_CHARS)} are not a JSON object"
        )
    call_id = lenient_json.str_or_empty(fields.get("id"))
    return {"tool_name": name, "arguments": arguments, **({"call_id": call_id} if call_id else {})}


def _convert_timing(fixture: Fields) -> tuple[Fields, list[ImportLoss]]:
    """The chunks, pace and faults of a fixture as scenario fields, and the losses."""
    scenario_fields: Fields = {}
    losses: list[ImportLoss] = []
    speed = nonnegative_number(fixture.get("replaySpeed")) or 1.0
    latency_ms = (nonnegative_number(fixture.get("latency")) or 0.0) / speed
    if any(fixture.get(name) is not None for name in _STREAM_FIELDS):
        chunk_chars = nonnegative_number(fixture.get("chunkSize")) or _DEFAULT_CHUNK_CHARS
        chunks: Fields = {"by": "characters", "size": max(1, int(chunk_chars))}
        scenario_fields["chunks"] = {**chunks, "delay_ms": latency_ms} if latency_ms else chunks
    profile = lenient_json.object_fields(fixture.get("streamingProfile"))
    recorded = lenient_json.object_fields(fixture.get("recordedTimings"))
    pace = _profile_pace(profile, latency_ms, speed)
    if pace is None and recorded:
        delays = lenient_json.array_items(recorded.get("interChunkDelaysMs"))
        gaps = [ms for delay in delays if (ms := nonnegative_number(delay)) is not None]
        losses += [_RECORDED_GAPS] if gaps else []
        ttft_ms = nonnegative_number(recorded.get("ttftMs")) or 0.0
        mean_gap_ms = sum(gaps) / len(gaps) if gaps else 0.0
        pace = ModelledPace(
            ttft=FixedDistribution(ttft_ms / speed), gap=FixedDistribution(mean_gap_ms / speed)
        )
    if pace is not None:
        scenario_fields["pace"] = str(pace)
        losses.append(_NONSTREAM_TIMES)
    if fixture.get("truncateAfterChunks") is not None:
        losses.append(_CHUNK_COUNTS)
    # Faults with a probability, in the order in which aimock draws them, and disconnections.
    chaos = lenient_json.object_fields(fixture.get("chaos"))
    faults: list[Json] = [
        f"{fault}={format_number(number)}{unit}"
        for name, (fault, unit) in _FAULT_BY_CHAOS_FIELD.items()
        if (number := nonnegative_number(chaos.get(name)))
    ]
    after_chunks = nonnegative_number(fixture.get("truncateAfterChunks"))
    if after_chunks is not None:
        faults.append(f"close,after={max(1, int(after_chunks))},stream=true")
    after_ms = nonnegative_number(fixture.get("disconnectAfterMs"))
    if after_ms is not None:
        faults.append(f"close,ms={format_number(after_ms)},stream=true")
    if faults:
        scenario_fields["faults"] = faults
    return scenario_fields, losses


def _profile_pace(
    profile: Mapping[str, Json], latency_ms: float, speed: float
) -> ModelledPace | None:
    """The pace of a streaming profile; the gap defaults to the latency, `ttft` to the gap."""
    ttft, tps = nonnegative_number(profile.get("ttft")), nonnegative_number(profile.get("tps"))
    if ttft is None and not tps:
        return None
    jitter = min(nonnegative_number(profile.get("jitter")) or 0.0, 1.0)

    def jittered_span(unscaled_ms: float) -> DurationDistribution:
        ms = unscaled_ms / speed
        if not jitter:
            return FixedDistribution(ms)
        return UniformDistribution(ms * (1 - jitter), ms * (1 + jitter))

    gap = jittered_span(1000 / tps) if tps else FixedDistribution(latency_ms)
    return ModelledPace(ttft=gap if ttft is None else jittered_span(ttft), gap=gap)
