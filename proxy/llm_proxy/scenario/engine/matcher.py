"""What scenarios see of a request, and a scenario's `match`, compiled once.

Regular expressions use the `regex` package, which has a time limit and searches without the GIL.
Its limit counts the CPU time of the whole process, `MatchBudget` that of the thread alone: a search
that timed out because other threads were busy is repeated.

Where clients must send signatures back, scenarios do not see unsigned reasoning in the history, as
document 000 requires; the request itself is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final, cast

import regex
from msgspec import UNSET

from llm_proxy import json_paths
from llm_proxy.conversation import Conversation
from llm_proxy.dialects import lenient_json, request_decoding
from llm_proxy.errors import JsonPathTooManySteps, PatternsTooSlow, printable_excerpt
from llm_proxy.routing import RoutedRequest
from llm_proxy.scenario.documents.document import Scenario, ScenarioMatch, ValueCondition
from llm_proxy.turns import Json, Reasoning, ToolCall

_MAX_SHOWN_CHARS: Final = 80
"""The most characters of a value in a message."""
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
        body = lenient_json.parse_json(routed.decompressed_request.body)
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
            notes.append(f"reasoning without a signature stripped from message {number}")
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
                self._values_by_path[path] = [cast("Json", node.obj) for node in nodes]
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
            f"{where}: the patterns tried on this request took more than {_CPU_LIMIT_S * 1000:g} "
            f"ms, the last /{printable_excerpt(pattern.pattern, _MAX_SHOWN_CHARS)}/ on "
            f"{len(text):,} characters"
        )


@dataclass(frozen=True, slots=True)
class CompiledMatch:
    """A scenario's `match` with its patterns and JSONPaths compiled."""

    scenario_match: ScenarioMatch
    compiled_patterns: Mapping[str, regex.Pattern[str]]
    compiled_paths: Mapping[str, json_paths.StepCountingPath]

    @classmethod
    def compile(cls, match: ScenarioMatch) -> CompiledMatch:
        """Compile a match whose patterns and paths are valid."""
        patterns = (
            match.user,
            match.system,
            *(condition.matches for condition in match.json.values()),
        )
        return cls(
            match,
            {pattern: regex.compile(pattern) for pattern in patterns if pattern},
            {path: json_paths.compile_path(path) for path in match.json},
        )

    def mismatch_reasons(self, context: MatchContext, budget: MatchBudget) -> Iterator[str]:
        """One text per condition that the request does not meet; nothing if it matches.

        Raises `PatternsTooSlow` with the pattern.
        """
        match, conversation = self.scenario_match, context.conversation
        for name in _GLOB_FIELDS:
            pattern, value = getattr(match, name), getattr(context, name)
            if pattern and not fnmatchcase(value, pattern):
                yield f"{name} is {printable_excerpt(value, _MAX_SHOWN_CHARS)!r}, not {pattern}"
        for name, pattern, text in (
            ("user", match.user, conversation.last_user_text),
            ("system", match.system, conversation.system),
        ):
            if pattern and not budget.matches_pattern(
                f"match.{name}", self.compiled_patterns[pattern], text
            ):
                yield f"{name}: /{pattern}/ is not in {printable_excerpt(text, _MAX_SHOWN_CHARS)!r}"
        has_tool_results = bool(conversation.results)
        if match.tool_results is not UNSET and match.tool_results != has_tool_results:
            yield "results of tools came last" if has_tool_results else "no result of a tool came"
        if match.turn is not UNSET and match.turn != conversation.turn:
            yield f"this is turn {conversation.turn}, not {match.turn}"
        for path, condition in match.json.items():
            values = budget.find_values(path, self.compiled_paths[path], context.body or {})
            yield from self._unmet_conditions(path, condition, values, budget)

    def _unmet_conditions(
        self, path: str, condition: ValueCondition, values: list[Json], budget: MatchBudget
    ) -> Iterator[str]:
        if condition.exists is not UNSET and condition.exists != bool(values):
            yield f"{path} is there" if values else f"{path} is not there"
            return
        expected, pattern = condition.equals, condition.matches
        if expected is not UNSET and not any(
            lenient_json.is_same_json(value, expected) for value in values
        ):
            expected_json = lenient_json.compact_json(expected)
            yield f"{path} is {_displayed_values(values)}, not {expected_json}"
        if pattern and not any(
            budget.matches_pattern(
                f"match.json[{path}]",
                self.compiled_patterns[pattern],
                lenient_json.value_as_text(value),
            )
            for value in values
        ):
            yield f"{path}: /{pattern}/ is not in {_displayed_values(values)}"


def _displayed_values(values: list[Json]) -> str:
    if not values:
        return "not there"
    return printable_excerpt(", ".join(map(lenient_json.compact_json, values)), _MAX_SHOWN_CHARS)
