"""Generates a scenario from the recorded exchanges of one conversation, for editing.

What was said becomes the answers, and the number of each turn that of its request.  What a request
says is hardly checked: the tools that it offered must be there, and nothing else.  Failures that
came before an answer come before it again.  Bytes and times stay in the cassettes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_dialect, cassette_turns, stored_http_request
from llm_proxy.conversation import Conversation
from llm_proxy.errors import NotRepresentable, printable
from llm_proxy.exchange import header_value
from llm_proxy.outcome import outcome_of
from llm_proxy.scenario.recorded.from_turns import Fields, response_of_turn
from llm_proxy.scenario.recorded.patterns import literal_pattern
from llm_proxy.scenario.recorded.yaml_writing import yaml_block
from llm_proxy.turns import Failure, Json, Turn

_REFUSED: Final = 400
"""From this status on, an answer is an error."""
_BROKEN: Final = 500
"""From this status on, it is the provider's."""
_AGAIN: Final = frozenset((408, 409, 429))
"""Below 500, the errors after which clients ask again."""
_OFTEN: Final = 429
_SHOWN: Final = 80
_MATCHED: Final = 200
"""Characters of a user's text that a pattern holds."""
_NUMBER: Final = re.compile(r"\d{1,9}(?:\.\d{1,3})?")


@dataclass(frozen=True, slots=True)
class ScenarioOptions:
    """What its author wants of a scenario."""

    id: str = ""
    """Empty for one that is made of dialect, model and key."""
    matches_exactly: bool = False
    """Whether requests must have the temperature and top_p that were recorded."""


@dataclass(frozen=True, slots=True)
class GeneratedScenario:
    """A scenario made of recordings."""

    generate_scenario: Fields
    """As it stands in a document."""
    text: str
    """The document: YAML, with remarks."""
    notes: tuple[str, ...]
    """What of the recordings it does not say, in sentences."""


@dataclass(frozen=True, slots=True)
class _DecodedExchange:
    """One exchange, and what it means."""

    cassette: Cassette
    conversation: Conversation
    turns: tuple[Turn, ...]

    @property
    def file(self) -> str:
        return printable(self.cassette.file, 500)

    @property
    def failure(self) -> Failure | None:
        """The error that it is, or that it ends in."""
        return next((turn.failure for turn in self.turns if turn.failure), None)


def generate_scenario(
    cassettes: Sequence[Cassette], wishes: ScenarioOptions = ScenarioOptions()
) -> GeneratedScenario:
    """The scenario that plays what these recorded, which are of one conversation.

    Raises `NotRepresentable`, with the file and what to do, for what is no turn, is not complete,
    or is of another conversation than the first.
    """
    recorded = sorted(map(_decode_exchange, cassettes), key=lambda it: it.cassette.meta.recorded)
    if not recorded:
        raise NotRepresentable("a scenario is made of cassettes, and there are none")
    numbers = _turn_numbers(recorded)
    _check_single_conversation(recorded)
    by_turn: defaultdict[int, list[_DecodedExchange]] = defaultdict(list)
    for number, decoded_exchange in zip(numbers, recorded, strict=True):
        by_turn[number].append(decoded_exchange)
    notes: list[str] = []
    made = [_make_step(number, by_turn[number], wishes, notes) for number in sorted(by_turn)]
    played = {number: it for number, it in zip(sorted(by_turn), made, strict=True) if it}
    if not played:
        raise NotRepresentable(
            f"{recorded[0].file} is a failure, and no answer was recorded after it: give one too"
        )
    if missing := [str(count) for count in range(1, max(played)) if count not in by_turn]:
        notes.append(f"turn {', '.join(missing)} is in none of these cassettes")
    answers = {number: _first_success(by_turn[number]) for number in played}
    return _generated_scenario(
        list(played.values()), [answer for answer in answers.values() if answer], wishes, notes
    )


def _decode_exchange(cassette: Cassette) -> _DecodedExchange:
    """The exchange, read.  Raises `NotRepresentable` for one that a scenario could not play."""
    file = printable(cassette.file, 500)
    conversation = cassette_dialect(cassette).decode_request(stored_http_request(cassette))
    turns = cassette_turns(cassette)
    if conversation is None or not turns:
        raise NotRepresentable(f"{file} holds no turn: a scenario is made of those")
    judged = outcome_of(cassette)
    if not judged.complete:
        raise NotRepresentable(f"{file} is {judged}; played again it would seem whole")
    return _DecodedExchange(cassette, conversation, turns)


def _turn_numbers(recorded: Sequence[_DecodedExchange]) -> list[int]:
    """The number of each one's turn, also where a request only names the answer it continues."""
    by_id = {
        turn.id: decoded_exchange
        for decoded_exchange in recorded
        for turn in decoded_exchange.turns
        if turn.id
    }

    def number(decoded_exchange: _DecodedExchange, after: frozenset[str]) -> int:
        previous = decoded_exchange.conversation.previous_response_id
        if decoded_exchange.conversation.stored_conversation_id:
            raise NotRepresentable(
                f"{decoded_exchange.file} adds to a conversation that its provider keeps, so "
                "what came before "
                "is not recorded: write its turn by hand"
            )
        if not previous:
            return decoded_exchange.conversation.turn
        if previous not in by_id or previous in after:
            raise NotRepresentable(
                f"{decoded_exchange.file} continues the answer {printable(previous, _SHOWN)}, "
                "which none of "
                "these cassettes holds: give its cassette too"
            )
        return number(by_id[previous], after | {previous}) + decoded_exchange.conversation.turn

    return [number(decoded_exchange, frozenset()) for decoded_exchange in recorded]


def _check_single_conversation(recorded: Sequence[_DecodedExchange]) -> None:
    """Raise `NotRepresentable` where these are several conversations."""
    whole = [
        decoded_exchange
        for decoded_exchange in recorded
        if not decoded_exchange.conversation.previous_response_id
    ]
    for decoded_exchange in whole[1:]:
        if decoded_exchange.conversation.first_user_text != whole[0].conversation.first_user_text:
            raise NotRepresentable(
                f"{whole[0].file} and {decoded_exchange.file} are of two conversations, as "
                "their first user "
                "texts say: make a scenario of each"
            )


def _first_success(attempts: Sequence[_DecodedExchange]) -> _DecodedExchange | None:
    """The first attempt that succeeded."""
    return next((attempt for attempt in attempts if attempt.failure is None), None)


def _make_step(
    number: int, attempts: Sequence[_DecodedExchange], wishes: ScenarioOptions, notes: list[str]
) -> Fields | None:
    """The turn of this number; None where every attempt failed."""
    decoded_exchange = _first_success(attempts)
    if decoded_exchange is None:
        notes.append(f"turn {number} is left out: {attempts[0].file} is a failure, as is all else")
        return None
    at = attempts.index(decoded_exchange)
    notes += (
        f"{attempt.file} is turn {number} again, and left out" for attempt in attempts[at + 1 :]
    )
    fields, left = response_of_turn(
        decoded_exchange.turns[0], cassette_dialect(decoded_exchange.cassette).name
    )
    if len(decoded_exchange.turns) > 1:
        left = (
            *left,
            f"{len(decoded_exchange.turns) - 1} of {len(decoded_exchange.turns)} choices",
        )
    if left:
        notes.append(f"turn {number} does not say: {printable('; '.join(left), 500)}")
    step: Fields = {"turn": number, **_request_expectations(decoded_exchange.conversation, wishes)}
    return step | _failure_fields(number, attempts[:at], notes) | {"response": fields}


def _request_expectations(conversation: Conversation, wishes: ScenarioOptions) -> Fields:
    tools: list[Json] = [*dict.fromkeys(tool.name for tool in conversation.tools if tool.name)]
    expected: Fields = {"expected_tools": tools} if tools else {}
    if wishes.matches_exactly and conversation.temperature is not None:
        expected["expected_temperature"] = conversation.temperature
    if wishes.matches_exactly and conversation.top_p is not None:
        expected["expected_top_p"] = conversation.top_p
    return expected


def _failure_fields(number: int, failed: Sequence[_DecodedExchange], notes: list[str]) -> Fields:
    """How the turn fails before it succeeds: as often as it did, and as it did the last time."""
    if not failed:
        return {}
    kinds = [_failure_kind(decoded_exchange) for decoded_exchange in failed]
    if any(kind != kinds[-1] for kind in kinds):
        notes.append(f"turn {number} failed in several ways: it fails {len(kinds)} times as last")
    return {"failures_before_success": len(failed), **kinds[-1]}


def _failure_kind(decoded_exchange: _DecodedExchange) -> Fields:
    """A failure in a scenario's words."""
    status = decoded_exchange.cassette.head.status
    message = decoded_exchange.failure.message if decoded_exchange.failure else ""
    fields: Fields = {"failure_message": message} if message else {}
    if status == _OFTEN:
        after = _retry_after_ms(decoded_exchange.cassette)
        waits: Fields = {} if after is None else {"failure_retry_after_ms": after}
        return {"failure_status": "rate_limit", **fields, **waits}
    if status < _REFUSED:  # within the answer, of which nothing else is kept
        return {"failure_status": "model_error", **fields}
    is_final = status < _BROKEN and status not in _AGAIN
    fault: Fields = {"failure_status": "model_error", **fields}
    fault |= {"failure_retryable": False} if is_final else {}
    return fault | ({} if status in {_REFUSED, _BROKEN} else {"failure_error": {"status": status}})


def _retry_after_ms(cassette: Cassette) -> int | float | None:
    """When to ask again, in ms; None where that is not said in numbers."""
    for name, unit in (("retry-after-ms", 1), ("retry-after", 1000)):
        text = (header_value(cassette.head.headers, name) or "").strip()
        if _NUMBER.fullmatch(text):
            ms = float(text) * unit
            return int(ms) if ms.is_integer() else ms
    return None


def _generated_scenario(
    steps: list[Fields],
    answers: Sequence[_DecodedExchange],
    wishes: ScenarioOptions,
    notes: Sequence[str],
) -> GeneratedScenario:
    first = answers[0]
    fields: Fields = {
        "id": wishes.id or _scenario_id(first.cassette),
        "description": _scenario_description(first),
    }
    users = dict.fromkeys(answer.conversation.last_user_text for answer in answers)
    if pattern := _user_text_pattern([text for text in users if text]):
        fields["match"] = {"user": pattern}
    else:
        notes = (*notes, "no user text was recorded: name the scenario by a header or a session")
    turns: list[Json] = [*steps]
    text = "".join(
        (
            *_origin_comments(answers),
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
    return printable(lines[0].strip(), _SHOWN) if lines else "A recorded conversation."


def _user_text_pattern(texts: Sequence[str]) -> str:
    """A regular expression for the latest user texts of its turns; empty where there are none."""
    items = [
        literal_pattern(text[:_MATCHED]) + ("$" if len(text) <= _MATCHED else "") for text in texts
    ]
    return "^" + (items[0] if len(items) == 1 else f"(?:{'|'.join(items)})") if items else ""


def _origin_comments(answers: Sequence[_DecodedExchange]) -> Iterator[str]:
    yield "# Made by llm-proxy scenario from; edit it as you like. It was recorded in:\n"
    yield from (f"#   {answer.file}\n" for answer in answers)


def _system_prompt_hint(first: _DecodedExchange) -> Iterator[str]:
    """How to demand the system prompt, where there was one."""
    lines = [line.strip() for line in first.conversation.system.splitlines() if line.strip()]
    if lines:
        demand: Mapping[str, Json] = {"system_prompt_must_include": [printable(lines[0], _MATCHED)]}
        yield "# The system prompt may be any. To demand a part of it:\n"
        yield from (f"# {line}\n" for line in yaml_block(demand).splitlines())
