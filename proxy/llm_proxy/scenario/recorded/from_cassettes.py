"""Recorded exchanges of one conversation as a scenario that plays it again, to be edited by hand.

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
from llm_proxy.cassette_views import asked, dialect_of, turns_of
from llm_proxy.conversation import Conversation
from llm_proxy.errors import CannotSay, printable
from llm_proxy.exchange import header
from llm_proxy.outcome import outcome
from llm_proxy.scenario.recorded.from_turns import Fields, response
from llm_proxy.scenario.recorded.patterns import literally
from llm_proxy.scenario.recorded.yaml_writing import block
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
class Wishes:
    """What its author wants of a scenario."""

    id: str = ""
    """Empty for one that is made of dialect, model and key."""
    exact: bool = False
    """Whether requests must have the temperature and top_p that were recorded."""


@dataclass(frozen=True, slots=True)
class Told:
    """A scenario made of recordings."""

    scenario: Fields
    """As it stands in a document."""
    text: str
    """The document: YAML, with remarks."""
    notes: tuple[str, ...]
    """What of the recordings it does not say, in sentences."""


@dataclass(frozen=True, slots=True)
class _Recorded:
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


def scenario(cassettes: Sequence[Cassette], wishes: Wishes = Wishes()) -> Told:
    """The scenario that plays what these recorded, which are of one conversation.

    Raises `CannotSay`, with the file and what to do, for what is no turn, is not complete, or is
    of another conversation than the first.
    """
    recorded = sorted(map(_recorded, cassettes), key=lambda it: it.cassette.meta.recorded)
    if not recorded:
        raise CannotSay("a scenario is made of cassettes, and there are none")
    numbers = _numbers(recorded)
    _check_that_it_is_one(recorded)
    by_turn: defaultdict[int, list[_Recorded]] = defaultdict(list)
    for number, it in zip(numbers, recorded, strict=True):
        by_turn[number].append(it)
    notes: list[str] = []
    made = [_step(number, by_turn[number], wishes, notes) for number in sorted(by_turn)]
    played = {number: it for number, it in zip(sorted(by_turn), made, strict=True) if it}
    if not played:
        raise CannotSay(
            f"{recorded[0].file} is a failure, and no answer was recorded after it: give one too"
        )
    if missing := [str(it) for it in range(1, max(played)) if it not in by_turn]:
        notes.append(f"turn {', '.join(missing)} is in none of these cassettes")
    answers = {number: _answer(by_turn[number]) for number in played}
    return _told(list(played.values()), [it for it in answers.values() if it], wishes, notes)


def _recorded(cassette: Cassette) -> _Recorded:
    """The exchange, read.  Raises `CannotSay` for one that a scenario could not play."""
    file = printable(cassette.file, 500)
    conversation = dialect_of(cassette).conversation(asked(cassette))
    turns = turns_of(cassette)
    if conversation is None or not turns:
        raise CannotSay(f"{file} holds no turn: a scenario is made of those")
    judged = outcome(cassette)
    if not judged.complete:
        raise CannotSay(f"{file} is {judged}; played again it would seem whole")
    return _Recorded(cassette, conversation, turns)


def _numbers(recorded: Sequence[_Recorded]) -> list[int]:
    """The number of each one's turn, also where a request only names the answer it continues."""
    by_id = {turn.id: it for it in recorded for turn in it.turns if turn.id}

    def number(it: _Recorded, after: frozenset[str]) -> int:
        previous = it.conversation.previous
        if it.conversation.stored:
            raise CannotSay(
                f"{it.file} adds to a conversation that its provider keeps, so what came before "
                "is not recorded: write its turn by hand"
            )
        if not previous:
            return it.conversation.turn
        if previous not in by_id or previous in after:
            raise CannotSay(
                f"{it.file} continues the answer {printable(previous, _SHOWN)}, which none of "
                "these cassettes holds: give its cassette too"
            )
        return number(by_id[previous], after | {previous}) + it.conversation.turn

    return [number(it, frozenset()) for it in recorded]


def _check_that_it_is_one(recorded: Sequence[_Recorded]) -> None:
    """Raise `CannotSay` where these are several conversations."""
    whole = [it for it in recorded if not it.conversation.previous]
    for it in whole[1:]:
        if it.conversation.first_user_text != whole[0].conversation.first_user_text:
            raise CannotSay(
                f"{whole[0].file} and {it.file} are of two conversations, as their first user "
                "texts say: make a scenario of each"
            )


def _answer(attempts: Sequence[_Recorded]) -> _Recorded | None:
    """The first attempt that succeeded."""
    return next((it for it in attempts if it.failure is None), None)


def _step(
    number: int, attempts: Sequence[_Recorded], wishes: Wishes, notes: list[str]
) -> Fields | None:
    """The turn of this number; None where every attempt failed."""
    it = _answer(attempts)
    if it is None:
        notes.append(f"turn {number} is left out: {attempts[0].file} is a failure, as is all else")
        return None
    at = attempts.index(it)
    notes += (f"{one.file} is turn {number} again, and left out" for one in attempts[at + 1 :])
    said, left = response(it.turns[0], dialect_of(it.cassette).name)
    if len(it.turns) > 1:
        left = (*left, f"{len(it.turns) - 1} of {len(it.turns)} choices")
    if left:
        notes.append(f"turn {number} does not say: {printable('; '.join(left), 500)}")
    step: Fields = {"turn": number, **_expected(it.conversation, wishes)}
    return step | _failures(number, attempts[:at], notes) | {"response": said}


def _expected(conversation: Conversation, wishes: Wishes) -> Fields:
    """What a request must have."""
    tools: list[Json] = [*dict.fromkeys(tool.name for tool in conversation.tools if tool.name)]
    expected: Fields = {"expected_tools": tools} if tools else {}
    if wishes.exact and conversation.temperature is not None:
        expected["expected_temperature"] = conversation.temperature
    if wishes.exact and conversation.top_p is not None:
        expected["expected_top_p"] = conversation.top_p
    return expected


def _failures(number: int, failed: Sequence[_Recorded], notes: list[str]) -> Fields:
    """How the turn fails before it succeeds: as often as it did, and as it did the last time."""
    if not failed:
        return {}
    kinds = [_kind(it) for it in failed]
    if any(kind != kinds[-1] for kind in kinds):
        notes.append(f"turn {number} failed in several ways: it fails {len(kinds)} times as last")
    return {"failures_before_success": len(failed), **kinds[-1]}


def _kind(it: _Recorded) -> Fields:
    """A failure in a scenario's words."""
    status = it.cassette.head.status
    message = it.failure.message if it.failure else ""
    said: Fields = {"failure_message": message} if message else {}
    if status == _OFTEN:
        after = _retry_after_ms(it.cassette)
        waits: Fields = {} if after is None else {"failure_retry_after_ms": after}
        return {"failure_status": "rate_limit", **said, **waits}
    if status < _REFUSED:  # within the answer, of which nothing else is kept
        return {"failure_status": "model_error", **said}
    is_final = status < _BROKEN and status not in _AGAIN
    fault: Fields = {"failure_status": "model_error", **said}
    fault |= {"failure_retryable": False} if is_final else {}
    return fault | ({} if status in {_REFUSED, _BROKEN} else {"failure_error": {"status": status}})


def _retry_after_ms(cassette: Cassette) -> int | float | None:
    """When to ask again, in ms; None where that is not said in numbers."""
    for name, unit in (("retry-after-ms", 1), ("retry-after", 1000)):
        text = (header(cassette.head.headers, name) or "").strip()
        if _NUMBER.fullmatch(text):
            ms = float(text) * unit
            return int(ms) if ms.is_integer() else ms
    return None


def _told(
    steps: list[Fields], answers: Sequence[_Recorded], wishes: Wishes, notes: Sequence[str]
) -> Told:
    first = answers[0]
    about: Fields = {"id": wishes.id or _id(first.cassette), "description": _description(first)}
    users = dict.fromkeys(it.conversation.last_user_text for it in answers)
    if pattern := _pattern([text for text in users if text]):
        about["match"] = {"user": pattern}
    else:
        notes = (*notes, "no user text was recorded: name the scenario by a header or a session")
    turns: list[Json] = [*steps]
    text = "".join((*_remarks(answers), block(about), *_hint(first), block({"turns": turns})))
    return Told({**about, "turns": turns}, text, tuple(notes))


def _id(cassette: Cassette) -> str:
    meta = cassette.meta
    words = f"{meta.dialect} {meta.model} {meta.key[:8]}".lower()
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-")


def _description(it: _Recorded) -> str:
    lines = it.conversation.first_user_text.strip().splitlines()
    return printable(lines[0].strip(), _SHOWN) if lines else "A recorded conversation."


def _pattern(texts: Sequence[str]) -> str:
    """A regular expression for the latest user texts of its turns; empty where there are none."""
    each = [literally(text[:_MATCHED]) + ("$" if len(text) <= _MATCHED else "") for text in texts]
    return "^" + (each[0] if len(each) == 1 else f"(?:{'|'.join(each)})") if each else ""


def _remarks(answers: Sequence[_Recorded]) -> Iterator[str]:
    """Where it comes from."""
    yield "# Made by llm-proxy scenario from; edit it as you like. It was recorded in:\n"
    yield from (f"#   {it.file}\n" for it in answers)


def _hint(first: _Recorded) -> Iterator[str]:
    """How to demand the system prompt, where there was one."""
    lines = [line.strip() for line in first.conversation.system.splitlines() if line.strip()]
    if lines:
        demand: Mapping[str, Json] = {"system_prompt_must_include": [printable(lines[0], _MATCHED)]}
        yield "# The system prompt may be any. To demand a part of it:\n"
        yield from (f"# {line}\n" for line in block(demand).splitlines())
