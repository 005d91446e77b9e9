"""Generates a scenario from the recorded exchanges of one conversation, for editing.

Recorded turns become responses, with the turn numbers of their requests.  Requests are hardly
checked: only the tools that they offered are expected.  Failures recorded before a response precede
it again.  Bytes and timings are not copied from the cassettes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_dialect, cassette_response_turns
from llm_proxy.conversation import Conversation
from llm_proxy.errors import NotRepresentable, printable_excerpt
from llm_proxy.exchange import header_value
from llm_proxy.outcome import cassette_outcome
from llm_proxy.scenario.recorded.from_turns import Fields, response_fields
from llm_proxy.scenario.recorded.literal_patterns import literal_pattern
from llm_proxy.scenario.recorded.yaml_writing import yaml_block
from llm_proxy.turns import Failure, Json, Turn

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
_DELAY_NUMBER: Final = re.compile(r"\d{1,9}(?:\.\d{1,3})?")


@dataclass(frozen=True, slots=True)
class ScenarioOptions:
    """Options of the generated scenario."""

    id: str = ""
    """If empty, derived from dialect, model and key."""
    expects_sampling: bool = False
    """Whether requests must have the recorded temperature and top_p."""


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
    conversation: Conversation
    response_turns: tuple[Turn, ...]

    @property
    def file(self) -> str:
        return printable_excerpt(self.cassette.file, 500)

    @property
    def failure(self) -> Failure | None:
        """The first failure in its turns; None if it succeeded."""
        return next((turn.failure for turn in self.response_turns if turn.failure), None)


def generate_scenario(
    cassettes: Sequence[Cassette], options: ScenarioOptions = ScenarioOptions()
) -> GeneratedScenario:
    """Generate the scenario that reproduces these recordings of one conversation.

    Raises `NotRepresentable`, with the file and a remedy, for a cassette that holds no turn, is
    incomplete, or belongs to another conversation than the first.
    """
    exchanges = sorted(
        map(_decode_exchange, cassettes), key=lambda exchange: exchange.cassette.meta.recorded_at
    )
    if not exchanges:
        raise NotRepresentable("a scenario is made of cassettes, and there are none")
    turn_numbers = _turn_numbers(exchanges)
    _check_single_conversation(exchanges)
    exchanges_by_turn: defaultdict[int, list[_DecodedExchange]] = defaultdict(list)
    for number, decoded_exchange in zip(turn_numbers, exchanges, strict=True):
        exchanges_by_turn[number].append(decoded_exchange)
    notes: list[str] = []
    steps = [
        _scenario_turn_fields(number, exchanges_by_turn[number], options, notes)
        for number in sorted(exchanges_by_turn)
    ]
    step_by_turn = {
        number: step for number, step in zip(sorted(exchanges_by_turn), steps, strict=True) if step
    }
    if not step_by_turn:
        raise NotRepresentable(
            f"{exchanges[0].file} is a failure, and no answer was recorded after it: give one too"
        )
    if missing := [
        str(number) for number in range(1, max(step_by_turn)) if number not in exchanges_by_turn
    ]:
        notes.append(f"turn {', '.join(missing)} is in none of these cassettes")
    exchange_by_turn = {
        number: _first_success(exchanges_by_turn[number]) for number in step_by_turn
    }
    return _assemble_scenario(
        list(step_by_turn.values()),
        [answer for answer in exchange_by_turn.values() if answer],
        options,
        notes,
    )


def _decode_exchange(cassette: Cassette) -> _DecodedExchange:
    """Decode a cassette.  Raises `NotRepresentable` if a scenario cannot reproduce it."""
    file = printable_excerpt(cassette.file, 500)
    conversation = cassette_dialect(cassette).decode_request(cassette.request)
    turns = cassette_response_turns(cassette)
    if conversation is None or not turns:
        raise NotRepresentable(f"{file} holds no turn: a scenario is made of those")
    outcome = cassette_outcome(cassette)
    if not outcome.is_complete:
        raise NotRepresentable(f"{file} is {outcome}; played again it would seem whole")
    return _DecodedExchange(cassette, conversation, turns)


def _turn_numbers(exchanges: Sequence[_DecodedExchange]) -> list[int]:
    """The turn number of each exchange, also if it continues a response by its id."""
    exchange_by_response_id = {
        turn.id: decoded_exchange
        for decoded_exchange in exchanges
        for turn in decoded_exchange.response_turns
        if turn.id
    }

    def turn_number(decoded_exchange: _DecodedExchange, visited_ids: frozenset[str]) -> int:
        previous = decoded_exchange.conversation.previous_response_id
        if decoded_exchange.conversation.stored_conversation_id:
            raise NotRepresentable(
                f"{decoded_exchange.file} adds to a conversation that its provider keeps, so "
                "what came before "
                "is not recorded: write its turn by hand"
            )
        if not previous:
            return decoded_exchange.conversation.turn
        if previous not in exchange_by_response_id or previous in visited_ids:
            raise NotRepresentable(
                f"{decoded_exchange.file} continues the answer "
                f"{printable_excerpt(previous, _MAX_SHOWN_CHARS)}, "
                "which none of "
                "these cassettes holds: give its cassette too"
            )
        return (
            turn_number(exchange_by_response_id[previous], visited_ids | {previous})
            + decoded_exchange.conversation.turn
        )

    return [turn_number(decoded_exchange, frozenset()) for decoded_exchange in exchanges]


def _check_single_conversation(exchanges: Sequence[_DecodedExchange]) -> None:
    """Raise `NotRepresentable` if these are several conversations."""
    full_history_exchanges = [
        decoded_exchange
        for decoded_exchange in exchanges
        if not decoded_exchange.conversation.previous_response_id
    ]
    for decoded_exchange in full_history_exchanges[1:]:
        if (
            decoded_exchange.conversation.first_user_text
            != full_history_exchanges[0].conversation.first_user_text
        ):
            raise NotRepresentable(
                f"{full_history_exchanges[0].file} and {decoded_exchange.file} are of two "
                "conversations, as "
                "their first user "
                "texts say: make a scenario of each"
            )


def _first_success(attempts: Sequence[_DecodedExchange]) -> _DecodedExchange | None:
    """The first attempt without a failure; None if all failed."""
    return next((attempt for attempt in attempts if attempt.failure is None), None)


def _scenario_turn_fields(
    number: int, attempts: Sequence[_DecodedExchange], options: ScenarioOptions, notes: list[str]
) -> Fields | None:
    """The scenario turn with this number; None if every attempt failed."""
    decoded_exchange = _first_success(attempts)
    if decoded_exchange is None:
        notes.append(f"turn {number} is left out: {attempts[0].file} is a failure, as is all else")
        return None
    success_index = attempts.index(decoded_exchange)
    notes += (
        f"{attempt.file} is turn {number} again, and left out"
        for attempt in attempts[success_index + 1 :]
    )
    fields, omitted = response_fields(
        decoded_exchange.response_turns[0], cassette_dialect(decoded_exchange.cassette).name
    )
    if len(decoded_exchange.response_turns) > 1:
        turn_count = len(decoded_exchange.response_turns)
        omitted = (*omitted, f"{turn_count - 1} of {turn_count} choices")
    if omitted:
        notes.append(f"turn {number} does not say: {printable_excerpt('; '.join(omitted), 500)}")
    step: Fields = {"turn": number, **_request_expectations(decoded_exchange.conversation, options)}
    return step | _failure_fields(number, attempts[:success_index], notes) | {"response": fields}


def _request_expectations(conversation: Conversation, options: ScenarioOptions) -> Fields:
    tools: list[Json] = [*dict.fromkeys(tool.name for tool in conversation.tools if tool.name)]
    expectations: Fields = {"expected_tools": tools} if tools else {}
    if options.expects_sampling and conversation.temperature is not None:
        expectations["expected_temperature"] = conversation.temperature
    if options.expects_sampling and conversation.top_p is not None:
        expectations["expected_top_p"] = conversation.top_p
    return expectations


def _failure_fields(
    number: int, failed_attempts: Sequence[_DecodedExchange], notes: list[str]
) -> Fields:
    """The failure fields of a turn: the recorded count, and the kind of the last failure."""
    if not failed_attempts:
        return {}
    failures = [_single_failure_fields(decoded_exchange) for decoded_exchange in failed_attempts]
    if any(failure != failures[-1] for failure in failures):
        notes.append(
            f"turn {number} failed in several ways: it fails {len(failures)} times as last"
        )
    return {"failures_before_success": len(failed_attempts), **failures[-1]}


def _single_failure_fields(decoded_exchange: _DecodedExchange) -> Fields:
    """The scenario fields of one failure."""
    status = decoded_exchange.cassette.response_head.status
    message = decoded_exchange.failure.message if decoded_exchange.failure else ""
    fields: Fields = {"failure_message": message} if message else {}
    if status == _RATE_LIMIT_STATUS:
        retry_after_ms = _retry_after_ms(decoded_exchange.cassette)
        delay_fields: Fields = (
            {} if retry_after_ms is None else {"failure_retry_after_ms": retry_after_ms}
        )
        return {"failure_status": "rate_limit", **fields, **delay_fields}
    if status < _FIRST_ERROR_STATUS:  # within a stream, whose other content is dropped
        return {"failure_status": "model_error", **fields}
    is_not_retryable = (
        status < _FIRST_SERVER_ERROR_STATUS and status not in _RETRYABLE_CLIENT_ERRORS
    )
    failure_fields: Fields = {"failure_status": "model_error", **fields}
    failure_fields |= {"failure_retryable": False} if is_not_retryable else {}
    return failure_fields | (
        {}
        if status in {_FIRST_ERROR_STATUS, _FIRST_SERVER_ERROR_STATUS}
        else {"failure_error": {"status": status}}
    )


def _retry_after_ms(cassette: Cassette) -> int | float | None:
    """The retry delay of the response headers, in ms; None unless it is a number."""
    for name, ms_per_unit in (("retry-after-ms", 1), ("retry-after", 1000)):
        text = (header_value(cassette.response_head.headers, name) or "").strip()
        if _DELAY_NUMBER.fullmatch(text):
            ms = float(text) * ms_per_unit
            return int(ms) if ms.is_integer() else ms
    return None


def _assemble_scenario(
    steps: list[Fields],
    exchanges: Sequence[_DecodedExchange],
    options: ScenarioOptions,
    notes: Sequence[str],
) -> GeneratedScenario:
    first = exchanges[0]
    fields: Fields = {
        "id": options.id or _scenario_id(first.cassette),
        "description": _scenario_description(first),
    }
    user_texts = dict.fromkeys(answer.conversation.last_user_text for answer in exchanges)
    if pattern := _user_text_pattern([text for text in user_texts if text]):
        fields["match"] = {"user": pattern}
    else:
        notes = (*notes, "no user text was recorded: name the scenario by a header or a session")
    turns: list[Json] = [*steps]
    text = "".join(
        (
            *_origin_comments(exchanges),
            yaml_block(fields),
            *_system_prompt_hint(first),
            yaml_block({"turns": turns}),
        )
    )
    return GeneratedScenario({**fields, "turns": turns}, text, tuple(notes))


def _scenario_id(cassette: Cassette) -> str:
    meta = cassette.meta
    words = f"{meta.dialect} {meta.model} {meta.key[:8]}".lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")


def _scenario_description(decoded_exchange: _DecodedExchange) -> str:
    lines = decoded_exchange.conversation.first_user_text.strip().splitlines()
    return (
        printable_excerpt(lines[0].strip(), _MAX_SHOWN_CHARS)
        if lines
        else "A recorded conversation."
    )


def _user_text_pattern(texts: Sequence[str]) -> str:
    """A regular expression for the latest user texts of all turns; empty without any."""
    patterns = [
        literal_pattern(text[:_MAX_PATTERN_CHARS])
        + ("$" if len(text) <= _MAX_PATTERN_CHARS else "")
        for text in texts
    ]
    return (
        "^" + (patterns[0] if len(patterns) == 1 else f"(?:{'|'.join(patterns)})")
        if patterns
        else ""
    )


def _origin_comments(exchanges: Sequence[_DecodedExchange]) -> Iterator[str]:
    yield "# Made by llm-proxy scenario from; edit it as you like. It was recorded in:\n"
    yield from (f"#   {answer.file}\n" for answer in exchanges)


def _system_prompt_hint(first: _DecodedExchange) -> Iterator[str]:
    """Comment lines that show how to require a part of the system prompt, if there was one."""
    lines = [line.strip() for line in first.conversation.system.splitlines() if line.strip()]
    if lines:
        example: Mapping[str, Json] = {
            "system_prompt_must_include": [printable_excerpt(lines[0], _MAX_PATTERN_CHARS)]
        }
        yield "# The system prompt may be any. To demand a part of it:\n"
        yield from (f"# {line}\n" for line in yaml_block(example).splitlines())
