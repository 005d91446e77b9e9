"""Generates a scenario from the recorded exchanges of one conversation, for editing.

Recorded turns become responses, in the simplest kind that fits, with the turn numbers of their
requests.  Requests are hardly checked: only the tools that they offered are expected.  Failures
recorded before a response precede it again.  Bytes and timings are not copied from the cassettes.
The YAML is for editing: one field per line, readable multi-line texts, and the same meaning in
YAML 1.1 and 1.2.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final

import orjson
import yaml

from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_dialect, cassette_outcome, cassette_response_turns
from llm_proxy.conversation import Conversation
from llm_proxy.dialects import Dialect
from llm_proxy.dialects.lenient_json import join_pieces, parse_json
from llm_proxy.dialects.turn_parts import is_provider_tool_call
from llm_proxy.errors import NotRepresentable, printable_excerpt
from llm_proxy.exchange import retry_after_ms
from llm_proxy.scenario.scripting import parse_finish_reason
from llm_proxy.turns import (
    Failure,
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

Fields = dict[str, Json]

_FIRST_ERROR_STATUS: Final = 400
"""Responses with this status or above are errors."""
_FIRST_SERVER_ERROR_STATUS: Final = 500
"""Errors with this status or above are the provider's."""
_RETRYABLE_CLIENT_ERRORS: Final = frozenset((408, 409, 429))
"""Statuses below 500 that clients retry."""
_RATE_LIMIT_STATUS: Final = 429
_MAX_SHOWN_CHARS: Final = 80
_MAX_PATTERN_CHARS: Final = 200
"""The most characters of a user text in a pattern."""
_YAML_NUMBER: Final = re.compile(
    r"[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?\.(?:inf|Inf|INF)"
)
"""Texts that YAML 1.2 parses as numbers; PyYAML quotes those of 1.1 itself."""
_UNUSUAL_LINE_END: Final = re.compile("[\x85\u2028\u2029]")
"""Line ends that not every parser recognises."""
_NO_WRAP_WIDTH: Final = 1_000_000
_SPECIAL_IN_PATTERN: Final = re.compile(r"([\\.^$*+?{}\[\]|()])")


@dataclass(frozen=True, slots=True)
class GeneratedScenario:
    """A scenario generated from recordings."""

    scenario: Fields
    """As parsed JSON."""
    yaml_text: str
    """The document as YAML, with comments."""
    omission_notes: tuple[str, ...]
    """A sentence for each thing in the recordings that the scenario lacks."""


@dataclass(frozen=True, slots=True)
class _DecodedExchange:
    """A cassette with its decoded request and turns."""

    cassette: Cassette
    file: str
    conversation: Conversation
    response_turns: tuple[Turn, ...]

    @property
    def failure(self) -> Failure | None:
        """The first failure in its turns; None if it succeeded."""
        return next((turn.failure for turn in self.response_turns if turn.failure), None)


def generate_scenario(
    cassettes: Sequence[Cassette], scenario_id: str = "", *, expects_sampling: bool = False
) -> GeneratedScenario:
    """Generate the scenario that reproduces these recordings of one conversation.

    Without an id it is derived from dialect, model and key.  With `expects_sampling` requests must
    have the recorded temperature and top_p.  Raises `NotRepresentable`, with the file and a remedy,
    for a cassette that holds no turn, is incomplete, or belongs to another conversation than the
    first.
    """
    exchanges = sorted(
        map(_decode_exchange, cassettes), key=lambda exchange: exchange.cassette.meta.recorded_at
    )
    if not exchanges:
        raise NotRepresentable("no cassettes given; pass at least one cassette")
    attempts_by_turn: defaultdict[int, list[_DecodedExchange]] = defaultdict(list)
    for number, exchange in zip(_turn_numbers(exchanges), exchanges, strict=True):
        attempts_by_turn[number].append(exchange)
    first, *others = [
        exchange for exchange in exchanges if not exchange.conversation.previous_response_id
    ]
    for other in others:
        if other.conversation.first_user_text != first.conversation.first_user_text:
            raise NotRepresentable(
                f"{first.file} and {other.file} belong to different conversations: their first "
                "user messages differ; create a separate scenario for each conversation"
            )
    notes: list[str] = []
    turns: dict[int, Json] = {}
    successes: list[_DecodedExchange] = []
    for number, attempts in sorted(attempts_by_turn.items()):
        success_index = next(
            (index for index, attempt in enumerate(attempts) if attempt.failure is None), None
        )
        if success_index is None:
            notes.append(
                f"turn {number} is omitted because every recorded attempt failed, such as "
                f"{attempts[0].file}"
            )
            continue
        turns[number] = _scenario_turn(
            number, attempts, success_index, notes, expects_sampling=expects_sampling
        )
        successes.append(attempts[success_index])
    if not turns:
        raise NotRepresentable(
            f"{exchanges[0].file} contains an error response; "
            "add a cassette with a successful response"
        )
    missing = [str(number) for number in range(1, max(turns)) if number not in attempts_by_turn]
    if missing:
        notes.append(f"no cassette was given for turn {', '.join(missing)}")
    return _assemble_scenario([*turns.values()], successes, scenario_id, notes)


def _decode_exchange(cassette: Cassette) -> _DecodedExchange:
    """Decode a cassette.  Raises `NotRepresentable` if a scenario cannot reproduce it."""
    file = printable_excerpt(cassette.file, 500)
    conversation = cassette_dialect(cassette).decode_request(cassette.request)
    turns = cassette_response_turns(cassette)
    if conversation is None or not turns:
        raise NotRepresentable(
            f"{file} does not contain a chat request; choose a cassette of a chat request"
        )
    outcome = cassette_outcome(cassette)
    if not outcome.is_complete:
        raise NotRepresentable(
            f"the response in {file} is {outcome}; choose a cassette with a complete response"
        )
    return _DecodedExchange(cassette, file, conversation, turns)


def _turn_numbers(exchanges: Sequence[_DecodedExchange]) -> list[int]:
    """The turn number of each exchange, also if it continues a response by its id."""
    exchange_by_response_id = {
        turn.id: exchange for exchange in exchanges for turn in exchange.response_turns if turn.id
    }

    def turn_number(exchange: _DecodedExchange, visited_ids: frozenset[str]) -> int:
        conversation = exchange.conversation
        previous = conversation.previous_response_id
        if conversation.stored_conversation_id:
            raise NotRepresentable(
                f"{exchange.file} continues a conversation that the provider stores, so the "
                "cassette does not contain the earlier turns; write this turn by hand"
            )
        if not previous:
            return conversation.turn
        if previous not in exchange_by_response_id or previous in visited_ids:
            raise NotRepresentable(
                f"{exchange.file} continues the response "
                f"{printable_excerpt(previous, _MAX_SHOWN_CHARS)}; add the cassette of that "
                "response"
            )
        earlier_turns = turn_number(exchange_by_response_id[previous], visited_ids | {previous})
        return earlier_turns + conversation.turn

    return [turn_number(exchange, frozenset()) for exchange in exchanges]


def _scenario_turn(
    number: int,
    attempts: Sequence[_DecodedExchange],
    success_index: int,
    notes: list[str],
    *,
    expects_sampling: bool,
) -> Fields:
    """The turn of the first successful attempt, with the failures before it."""
    success = attempts[success_index]
    notes += (
        f"{attempt.file} is omitted because it repeats turn {number}"
        for attempt in attempts[success_index + 1 :]
    )
    response, omitted = _response_fields(
        success.response_turns[0], cassette_dialect(success.cassette)
    )
    turn_count = len(success.response_turns)
    if turn_count > 1:
        omitted.append(f"{turn_count - 1} of {turn_count} choices")
    if omitted:
        notes.append(f"turn {number} omits: {printable_excerpt('; '.join(omitted), 500)}")
    conversation = success.conversation
    fields: Fields = {"turn": number}
    if tools := [*dict.fromkeys(tool.name for tool in conversation.tools if tool.name)]:
        fields["expected_tools"] = [*tools]
    if expects_sampling and conversation.temperature is not None:
        fields["expected_temperature"] = conversation.temperature
    if expects_sampling and conversation.top_p is not None:
        fields["expected_top_p"] = conversation.top_p
    if failures := [_failure_fields(attempt) for attempt in attempts[:success_index]]:
        if any(failure != failures[-1] for failure in failures):
            notes.append(
                f"turn {number} failed in different ways; the scenario repeats the last failure "
                f"{len(failures)} times"
            )
        fields |= {"failures_before_success": len(failures), **failures[-1]}
    return fields | {"response": response}


def _failure_fields(exchange: _DecodedExchange) -> Fields:
    """The scenario fields of one failure."""
    status = exchange.cassette.response_head.status
    is_rate_limit = status == _RATE_LIMIT_STATUS
    fields: Fields = {"failure_status": "rate_limit" if is_rate_limit else "model_error"}
    if exchange.failure and exchange.failure.message:
        fields["failure_message"] = exchange.failure.message
    if is_rate_limit:
        delay_ms = retry_after_ms(exchange.cassette.response_head.headers)
        if delay_ms is not None:
            fields["failure_retry_after_ms"] = int(delay_ms) if delay_ms.is_integer() else delay_ms
    elif status >= _FIRST_ERROR_STATUS:  # else within a stream, whose other content is dropped
        if status < _FIRST_SERVER_ERROR_STATUS and status not in _RETRYABLE_CLIENT_ERRORS:
            fields["failure_retryable"] = False
        if status not in {_FIRST_ERROR_STATUS, _FIRST_SERVER_ERROR_STATUS}:
            fields["failure_error"] = {"status": status}
    return fields


def _response_fields(turn: Turn, dialect: Dialect) -> tuple[Fields, list[str]]:
    """The `response` of a scenario turn, and a text for each part that it omits."""
    losses: list[str] = []
    parts = tuple(_representable_parts(turn.parts, losses))
    response = _simple_response(parts, dialect, losses) or {
        "kind": "parts",
        "parts": [_part_fields(part, dialect, losses) for part in parts],
    }
    default_finish, _ = parse_finish_reason("", parts)
    if turn.finish is not None and turn.finish is not default_finish:
        candidates = filter(None, (turn.finish_raw, turn.finish.value))
        response["finish_reason"] = next(
            (text for text in candidates if parse_finish_reason(text, ())[0] is turn.finish),
            turn.finish_raw or turn.finish.value,
        )
    # A total that is the sum of the others is left out.
    counts = {} if turn.usage is None else asdict(turn.usage)
    if counts and counts["total"] == (counts["input"] or 0) + (counts["output"] or 0):
        del counts["total"]
    if usage := {name: count for name, count in counts.items() if count is not None and count >= 0}:
        response["usage"] = usage
    return response, list(dict.fromkeys(losses))


def _representable_parts(parts: Sequence[Part], losses: list[str]) -> Iterator[Part]:
    answered_ids = {part.call_id for part in parts if isinstance(part, ToolResult)}
    for part in parts:
        match part:
            case Media():
                losses.append(part.media_type or "media")
            case ToolResult():
                losses.append("results of the provider's built-in tools")
            case ToolCall() if part.id in answered_ids or is_provider_tool_call(part):
                losses.append(f"the provider's built-in tool {part.name}")
            case Text(text="") | Refusal(text=""):
                pass
            case _:
                yield part


def _simple_response(parts: Sequence[Part], dialect: Dialect, losses: list[str]) -> Fields:
    """A response of kind text or tool-call; empty if the parts need kind parts."""
    reasoning = [part for part in parts if isinstance(part, Reasoning)]
    others = [part for part in parts if not isinstance(part, Reasoning)]
    if list(parts) != [*reasoning, *others]:
        return {}
    response: Fields = {"kind": "text"}
    if reasoning:
        response["reasoning"] = [_reasoning_fields(part, dialect) for part in reasoning]
    match others:
        case []:
            return response | {"assistant_text": ""}
        case [Text(text=text)]:
            return response | {"assistant_text": text}
        case [*_, ToolCall()] if all(isinstance(part, Text | ToolCall) for part in others):
            response["kind"] = "tool-call"
        case _:
            return {}
    if any(isinstance(one, Text) and isinstance(other, Text) for one, other in pairwise(others)):
        return {}  # at most one text may precede each call
    if isinstance(leading := others[0], Text) and leading.text:
        response["assistant_text"] = leading.text
        del others[0]
    calls: list[Json] = []
    text_before: Fields = {}
    for part in others:
        if isinstance(part, Text):
            text_before = {"assistant_text": part.text}
        elif isinstance(part, ToolCall):
            calls.append(text_before | _call_fields(part, len(calls) + 1, losses))
            text_before = {}
    return response | {"tool_calls": calls}


def _call_fields(call: ToolCall, number: int, losses: list[str]) -> Fields:
    """A call; its id only if it is not the default `call-N`."""
    call_fields: Fields = {"tool_name": call.name}
    if call.id and call.id != f"call-{number}":
        call_fields["call_id"] = call.id
    return call_fields | {"arguments": _arguments(call, losses)}


def _arguments(call: ToolCall, losses: list[str]) -> Fields:
    with suppress(ValueError, orjson.JSONEncodeError):  # they are named as a loss below
        value = parse_json(call.arguments.encode("utf-8", "replace") or b"{}")
        # A scenario holds neither NaN nor integers beyond 64 bits.
        if isinstance(value, dict) and orjson.loads(orjson.dumps(value)) == value:
            return value
    if dict(call.metadata).get("type") in ("custom", "custom_tool_call"):
        losses.append(
            f"the plain-text input of {call.name} (converted to a JSON object with the key 'input')"
        )
        return {"input": call.arguments}
    losses.append(f"the arguments of {call.name}, which are not a valid JSON object")
    return {}


def _part_fields(part: Part, dialect: Dialect, losses: list[str]) -> Fields:
    """A part of a response of kind parts."""
    match part:
        case Reasoning():
            return {"part": "reasoning", **_reasoning_fields(part, dialect)}
        case Refusal(text=text):
            return {"part": "refusal", "text": text}
        case ToolCall():
            return {"part": "tool-call", **_call_fields(part, 0, losses)}
        case Text(text=text):
            return {"part": "text", "text": text}
        case _:
            raise AssertionError(f"{type(part).__name__} was omitted before")


def _reasoning_fields(part: Reasoning, dialect: Dialect) -> Fields:
    names = dialect.metadata_names
    metadata_values = {names.signature_name: part.signature, names.redacted_name: part.redacted}
    metadata: Fields = {name: value for name, value in metadata_values.items() if value}
    reasoning: Fields = {"text": part.text} if part.text or not metadata else {}
    return reasoning | ({"provider_metadata": {names.written_key: metadata}} if metadata else {})


def _assemble_scenario(
    turns: list[Json],
    exchanges: Sequence[_DecodedExchange],
    scenario_id: str,
    notes: list[str],
) -> GeneratedScenario:
    first = exchanges[0]
    meta = first.cassette.meta
    words = f"{meta.dialect} {meta.model} {meta.key[:8]}".lower()
    user_lines = first.conversation.first_user_text.strip().splitlines()
    fields: Fields = {
        "id": scenario_id or re.sub(r"[^a-z0-9]+", "-", words).strip("-"),
        "description": printable_excerpt(user_lines[0].strip(), _MAX_SHOWN_CHARS)
        if user_lines
        else "A recorded conversation.",
    }
    patterns = [
        literal_pattern(text[:_MAX_PATTERN_CHARS])
        + ("$" if len(text) <= _MAX_PATTERN_CHARS else "")
        for text in dict.fromkeys(exchange.conversation.last_user_text for exchange in exchanges)
        if text
    ]
    if patterns:
        pattern = patterns[0] if len(patterns) == 1 else f"(?:{'|'.join(patterns)})"
        fields["match"] = {"user": f"^{pattern}"}
    else:
        notes.append(
            "the recorded request contains no user text; select the scenario with the header "
            "x-llm-proxy-scenario"
        )
    comments = ["Generated by `llm-proxy scenario from`; edit as needed. Source:"]
    comments += [f"  {exchange.file}" for exchange in exchanges]
    hints: list[str] = []
    system_lines = [line.strip() for line in first.conversation.system.splitlines() if line.strip()]
    if system_lines:
        example = [printable_excerpt(system_lines[0], _MAX_PATTERN_CHARS)]
        hints.append("Any system prompt is accepted. To require a text in the system prompt:")
        hints += yaml_block({"system_prompt_must_include": [*example]}).splitlines()
    text = "".join(
        (
            *(f"# {line}\n" for line in comments),
            yaml_block(fields),
            *(f"# {line}\n" for line in hints),
            yaml_block({"turns": turns}),
        )
    )
    return GeneratedScenario({**fields, "turns": turns}, text, tuple(notes))


def literal_pattern(text: str) -> str:
    """A readable regular expression that matches exactly this text."""
    return _SPECIAL_IN_PATTERN.sub(r"\\\1", text).replace("\n", r"\n")


def yaml_block(value: Mapping[str, Json]) -> str:
    """An object as block YAML, one field per line, in order."""
    text: str = yaml.dump(
        value,
        Dumper=_ReadableDumper,
        sort_keys=False,
        allow_unicode=True,
        width=_NO_WRAP_WIDTH,
        default_flow_style=False,
    )
    return text


class _ReadableDumper(yaml.SafeDumper):
    """Indented lists, no anchors, and the most readable style for each text."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        return super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_data(self, data: Any) -> yaml.Node:
        if isinstance(data, str):
            return self._represent_text(join_pieces([data]))
        return super().represent_data(data)

    def _represent_text(self, text: str) -> yaml.Node:
        style = None
        if _UNUSUAL_LINE_END.search(text):
            style = '"'
        elif "\n" in text:
            style = "|"
        elif _YAML_NUMBER.fullmatch(text):
            style = "'"
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)
