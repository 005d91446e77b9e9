"""Chooses the scenario for a request: what scenarios see of it, and their `match`.

The one that a header or the session names; else the one whose id is the first user message; else
the first, in file order, whose `match` holds.

Regular expressions use the `regex` package, which has a time limit and searches without the GIL.
Its limit counts the CPU time of the whole process, `MatchBudget` that of the thread alone: a search
that timed out because other threads were busy is repeated.

Where clients must send signatures back, scenarios do not see unsigned reasoning in the history, as
document 000 requires; the request itself is unchanged.
"""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import takewhile
from typing import Final, cast

import regex
from msgspec import UNSET

from llm_proxy import json_paths
from llm_proxy.conversation import Conversation
from llm_proxy.dialects import request_decoding
from llm_proxy.dialects.lenient_json import compact_json, is_same_json, parse_json, value_as_text
from llm_proxy.errors import JsonPathTooManySteps, PatternsTooSlow, printable_excerpt
from llm_proxy.routing import RoutedRequest
from llm_proxy.scenario.documents.document import MockSpec, Scenario, ScenarioMatch, ValueCondition
from llm_proxy.scenario.documents.mistakes import Located
from llm_proxy.turns import Json, Reasoning, ToolCall

_MAX_SHOWN_CHARS: Final = 80
"""The most characters of a value or an id in a message."""
_MAX_SUGGESTED_IDS: Final = 3
"""Similar ids in an error message."""
_MAX_ID_CHARS: Final = 200
"""Longer texts are not meant as an id, so nothing is suggested for them."""
_MAX_COMPARED_IDS: Final = 1000
"""If there are more ids, only those with the longest common prefix are compared."""
_MAX_TRIED_CHARS: Final = 60
"""The most characters of a text in the reason of a trial."""
_MAX_LOCATION_CHARS: Final = 300
"""The most characters of a scenario's id, file and line in a message."""
_MAX_SEARCHED_CHARS: Final = 100_000
"""Only this prefix of a text is searched."""
_CPU_LIMIT_S: Final = 0.05
"""CPU time for all pattern searches of one request."""
_GLOB_FIELDS: Final = ("model", "path", "provider", "dialect", "session")


@dataclass(frozen=True, slots=True)
class MatchContext:
    """What scenarios are chosen by, checked against, and filled in from."""

    conversation: Conversation
    """Including previous messages that the request only refers to by id."""
    body: Json
    """The parsed request body; None if it is not JSON."""
    model: str
    path: str
    provider: str
    dialect: str
    session: str
    seed: str
    """Seeds all randomness for this request."""
    requested_scenario_id: str = ""
    """Set by a header or by the session; empty if by neither."""


def match_context_of(
    routed: RoutedRequest, conversation: Conversation, seed: str, session_scenario_id: str = ""
) -> MatchContext:
    """The match context of a request; a header takes precedence over `session_scenario_id`."""
    try:
        body = parse_json(routed.decompressed_request.body)
    except ValueError:
        body = None
    requested_id = routed.requested_scenario
    with suppress(UnicodeError):  # HTTP itself knows only Latin-1
        requested_id = requested_id.encode("latin-1").decode()
    return MatchContext(
        conversation,
        body,
        model=routed.dialect.model(routed.decompressed_request),
        path=routed.decompressed_request.path,
        provider=routed.provider,
        dialect=routed.dialect.name,
        session=routed.session,
        seed=seed,
        requested_scenario_id=requested_id or session_scenario_id,
    )


def context_visible_to_scenario(
    scenario: Scenario, context: MatchContext
) -> tuple[MatchContext, tuple[str, ...]]:
    """The context without unsigned reasoning, and a note per message that lost its reasoning.

    Applies from the second turn on, only where signatures are expected, and only to assistant
    messages with tool calls in which no reasoning is signed.  If any message loses its reasoning,
    reasoning counts as disabled.
    """
    conversation = context.conversation
    expects_signatures = scenario.expect_signature
    if expects_signatures is None:
        expects_signatures = conversation.wants_signed_reasoning
    if conversation.turn <= 1 or not expects_signatures:
        return context, ()
    messages, notes = [], []
    for number, message in enumerate(conversation.messages, 1):
        other_parts = tuple(part for part in message.parts if not isinstance(part, Reasoning))
        is_unsigned = (
            message.role == "assistant"
            and len(other_parts) < len(message.parts)
            and any(isinstance(part, ToolCall) for part in other_parts)
            and not any(
                isinstance(part, Reasoning) and (part.signature or part.redacted)
                for part in message.parts
            )
        )
        messages.append(replace(message, parts=other_parts) if is_unsigned else message)
        if is_unsigned:
            notes.append(f"reasoning without a signature was removed from message {number}")
    if not notes:
        return context, ()
    conversation = replace(conversation, messages=tuple(messages), reasoning_enabled=False)
    body = request_decoding.body_without_unsigned_reasoning(context.body)
    return replace(context, conversation=conversation, body=body), tuple(notes)


class MatchBudget:
    """The search time and JSONPath steps left for one request, across all scenarios."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns the CPU time of this thread, in s."""
        self._step_budget = json_paths.StepBudget()
        self._values_by_path: dict[str, list[Json]] = {}
        self._clock = clock
        self._cpu_left_s = _CPU_LIMIT_S

    def find_values(
        self, path: str, compiled: json_paths.StepCountingPath, body: Json
    ) -> list[Json]:
        """The values at a path in the request body, cached by the path's text.

        In a body that is nested too deeply, at most the first ones.  Raises `PatternsTooSlow` if it
        takes too many steps.
        """
        if path not in self._values_by_path:
            try:
                nodes = json_paths.find_nodes(compiled, body, self._step_budget)
                self._values_by_path[path] = [cast("Json", node.value) for node in nodes]
            except JsonPathTooManySteps as error:
                raise PatternsTooSlow(
                    f"match.json: {printable_excerpt(path, _MAX_SHOWN_CHARS)} {error}"
                ) from None
        return self._values_by_path[path]

    def matches_pattern(self, where: str, pattern: regex.Pattern[str], text: str) -> bool:
        """Whether the pattern matches anywhere.  Raises `PatternsTooSlow`."""
        text = text[:_MAX_SEARCHED_CHARS]
        while self._cpu_left_s > 0:
            started_s = self._clock()
            try:
                return pattern.search(text, concurrent=True, timeout=self._cpu_left_s) is not None
            except TimeoutError:
                continue
            finally:
                self._cpu_left_s -= self._clock() - started_s
        raise PatternsTooSlow(
            f"{where}: the regular expressions took more than {_CPU_LIMIT_S * 1000:g} ms for this "
            "request; the last expression was "
            f"/{printable_excerpt(pattern.pattern, _MAX_SHOWN_CHARS)}/, "
            f"applied to a text of {len(text):,} characters"
        )


class CompiledMatch:
    """A scenario's `match` with its patterns and JSONPaths compiled."""

    def __init__(self, match: ScenarioMatch) -> None:
        """The patterns and paths of the match are valid."""
        conditions = match.json.values()
        patterns = (match.user, match.system, *(condition.matches for condition in conditions))
        self._match = match
        self._patterns = {pattern: regex.compile(pattern) for pattern in patterns if pattern}
        self._paths = {path: json_paths.compile_path(path) for path in match.json}

    @property
    def is_slow(self) -> bool:
        """Whether it has regular expressions or JSONPaths."""
        return bool(self._patterns or self._paths)

    def mismatch_reasons(self, context: MatchContext, budget: MatchBudget) -> Iterator[str]:
        """One text per condition that the request does not meet; nothing if it matches.

        Raises `PatternsTooSlow` with the pattern.
        """
        match, conversation = self._match, context.conversation
        for name in _GLOB_FIELDS:
            pattern, value = getattr(match, name), getattr(context, name)
            if pattern and not fnmatchcase(value, pattern):
                shown_value = printable_excerpt(value, _MAX_SHOWN_CHARS)
                yield f"{name} {shown_value!r} does not match {pattern}"
        for name, pattern, text in (
            ("user", match.user, conversation.last_user_text),
            ("system", match.system, conversation.system),
        ):
            if pattern and not budget.matches_pattern(
                f"match.{name}", self._patterns[pattern], text
            ):
                shown_text = printable_excerpt(text, _MAX_SHOWN_CHARS)
                yield f"{name}: /{pattern}/ does not match {shown_text!r}"
        has_tool_results = bool(conversation.results)
        if match.tool_results is not UNSET and match.tool_results != has_tool_results:
            verb = "ends" if has_tool_results else "does not end"
            yield f"the request {verb} with tool results"
        if match.turn is not UNSET and match.turn != conversation.turn:
            yield f"the turn number is {conversation.turn}, not {match.turn}"
        for path, condition in match.json.items():
            values = budget.find_values(path, self._paths[path], context.body or {})
            yield from self._unmet_conditions(path, condition, values, budget)

    def _unmet_conditions(
        self, path: str, condition: ValueCondition, values: list[Json], budget: MatchBudget
    ) -> Iterator[str]:
        if condition.exists is not UNSET and condition.exists != bool(values):
            yield f"{path} exists" if values else f"{path} is missing"
            return
        expected, pattern = condition.equals, condition.matches
        if expected is not UNSET and not any(is_same_json(value, expected) for value in values):
            expected_json = compact_json(expected)
            yield f"{path} is {_displayed_values(values)}, expected {expected_json}"
        if pattern and not any(
            budget.matches_pattern(
                f"match.json[{path}]",
                self._patterns[pattern],
                value_as_text(value),
            )
            for value in values
        ):
            yield f"{path} is {_displayed_values(values)}, expected a match for /{pattern}/"


def _displayed_values(values: list[Json]) -> str:
    if not values:
        return "missing"
    return printable_excerpt(", ".join(map(compact_json, values)), _MAX_SHOWN_CHARS)


@dataclass(frozen=True)
class ScenarioSet:
    """All scenarios of a run, and its mock."""

    scenarios: tuple[Located[Scenario], ...] = ()
    mock: MockSpec | None = None

    @cached_property
    def scenarios_by_id(self) -> dict[str, Located[Scenario]]:
        """By id; the first of several with the same id."""
        return {located.value.id: located for located in reversed(self.scenarios)}

    @cached_property
    def named_models(self) -> tuple[str, ...]:
        """The models without wildcards in `match.model`, for model lists; `test-llm` if none."""
        patterns = (located.value.match.model for located in self.scenarios if located.value.match)
        models = (pattern for pattern in patterns if pattern and not set(pattern) & set("*?["))
        return tuple(dict.fromkeys(models)) or ("test-llm",)

    @cached_property
    def compiled_matches(self) -> tuple[tuple[Located[Scenario], CompiledMatch], ...]:
        """The scenarios with a `match`, compiled, in file order."""
        return tuple(
            (located, CompiledMatch(located.value.match))
            for located in self.scenarios
            if located.value.match
        )

    @cached_property
    def may_match_slowly(self) -> bool:
        """Whether any `match` has regular expressions or JSONPaths."""
        return any(matcher.is_slow for _, matcher in self.compiled_matches)

    def nearest_ids(self, scenario_id: str) -> list[str]:
        """Up to 3 known ids similar to this one; none for a text over 200 characters."""
        if len(scenario_id) > _MAX_ID_CHARS:
            return []
        ids = list(self.scenarios_by_id)
        if len(ids) > _MAX_COMPARED_IDS:

            def common_prefix_length(known_id: str) -> int:
                pairs = zip(known_id, scenario_id, strict=False)
                return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

            ids = heapq.nlargest(_MAX_COMPARED_IDS, ids, common_prefix_length)
        return difflib.get_close_matches(scenario_id, ids, _MAX_SUGGESTED_IDS)


@dataclass(frozen=True, slots=True)
class ChosenScenario:
    """The scenario that answers, and why it was chosen."""

    located_scenario: Located[Scenario]
    reason: str


@dataclass(frozen=True, slots=True)
class NoScenario:
    """No scenario answers."""

    requested_id: str
    """The id in a header, of the session, or else in the first user message."""
    is_explicit: bool
    """Whether a header or the session named it."""


def choose_scenario(
    scenario_set: ScenarioSet, context: MatchContext, clock: Callable[[], float]
) -> ChosenScenario | NoScenario:
    """The scenario for this request.

    `clock` returns the CPU time of this thread, in s.  Raises `PatternsTooSlow` with the scenario,
    its file and line, and the pattern that took too long.
    """
    if requested_id := context.requested_scenario_id:
        if requested_id not in scenario_set.scenarios_by_id:
            return NoScenario(requested_id, is_explicit=True)
        return ChosenScenario(
            scenario_set.scenarios_by_id[requested_id], "selected by a header or by the session"
        )
    first_user_text = context.conversation.first_user_text.strip()
    if first_user_text in scenario_set.scenarios_by_id:
        return ChosenScenario(
            scenario_set.scenarios_by_id[first_user_text],
            "the scenario id equals the first user message",
        )
    budget = MatchBudget(clock)
    for located, matcher in scenario_set.compiled_matches:
        visible_context, _ = context_visible_to_scenario(located.value, context)
        try:
            is_mismatch = any(matcher.mismatch_reasons(visible_context, budget))
        except PatternsTooSlow as error:
            location = f"{located.value.id} ({located.file}:{located.line})"
            raise PatternsTooSlow(
                f"Scenario {printable_excerpt(location, _MAX_LOCATION_CHARS)}: {error}"
            ) from None
        if not is_mismatch:
            return ChosenScenario(located, "the request meets the match conditions")
    return NoScenario(first_user_text, is_explicit=False)


def no_scenario_message(scenario_set: ScenarioSet, no_scenario: NoScenario) -> str:
    """The error message for a request that no scenario answers, with similar ids."""
    if not no_scenario.requested_id:
        return "No scenario was selected, because the request contains no user text."
    suggestions = ", ".join(scenario_set.nearest_ids(no_scenario.requested_id))
    hint = f" Did you mean {suggestions}?" if suggestions else ""
    return (
        "Scenario not found: "
        f"{printable_excerpt(no_scenario.requested_id, _MAX_SHOWN_CHARS)}.{hint} "
        "Run `llm-proxy scenario ls` to list all ids."
    )


@dataclass(frozen=True, slots=True)
class ScenarioTrial:
    """Whether one scenario answers a request, and why."""

    located_scenario: Located[Scenario]
    is_chosen: bool
    reason: str
    """Why it is chosen or not."""


def try_each_scenario(
    scenario_set: ScenarioSet,
    context: MatchContext,
    chosen: ChosenScenario | NoScenario,
    clock: Callable[[], float],
) -> list[ScenarioTrial]:
    """One trial per scenario, in file order; at most one is chosen.

    `clock` returns the CPU time of this thread, in s.
    """
    trials = []
    for located in scenario_set.scenarios:
        is_chosen = isinstance(chosen, ChosenScenario) and located is chosen.located_scenario
        reason = (
            chosen.reason
            if isinstance(chosen, ChosenScenario) and is_chosen
            else _mismatch_reason(located, context, chosen, MatchBudget(clock))
        )
        trials.append(ScenarioTrial(located, is_chosen, reason))
    return trials


def _mismatch_reason(
    located: Located[Scenario],
    context: MatchContext,
    chosen: ChosenScenario | NoScenario,
    budget: MatchBudget,
) -> str:
    if context.requested_scenario_id:
        requested_id = printable_excerpt(context.requested_scenario_id, _MAX_TRIED_CHARS)
        return f"a header or the session selects the scenario {requested_id}"
    if located.value.match is None:
        text = printable_excerpt(context.conversation.first_user_text.strip(), _MAX_TRIED_CHARS)
        return f"the scenario id differs from the first user message {text!r}"
    visible_context, _ = context_visible_to_scenario(located.value, context)
    try:
        mismatches = "; ".join(
            CompiledMatch(located.value.match).mismatch_reasons(visible_context, budget)
        )
    except PatternsTooSlow as error:
        return str(error)
    if mismatches or isinstance(chosen, NoScenario):
        return mismatches
    winner_id = printable_excerpt(chosen.located_scenario.value.id, _MAX_TRIED_CHARS)
    return f"the request meets the match conditions, but the scenario {winner_id} comes first"
