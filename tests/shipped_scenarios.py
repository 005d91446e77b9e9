"""Conversations with every shipped scenario, and the responses expected in each dialect.

What SDKs raise when a scenario fails depends on the SDK; see `tests/scenario_failures.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from conversation_plans import (
    ConversationPlan,
    ResponsePart,
    SdkResponse,
    group_parts_by_kind,
    merge_parts,
)

CASSETTES: Final = Path(__file__).parents[1] / "cassettes"
FOLDER: Final = CASSETTES / "scenarios"
MOCK: Final = CASSETTES / "mocks" / "lookup.yaml"

ANY_OBJECT: Final = {"type": "object"}
DAY_SCHEMA: Final = {
    "type": "object",
    "properties": {"day": {"type": "string", "enum": ["Monday"]}},
    "required": ["day"],
    "additionalProperties": False,
}
"""A schema that only one value satisfies."""
CITY_SCHEMA: Final = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}

_FINISH_REASONS: Final[dict[str, dict[str, str]]] = {
    "openai-chat": {"stop": "stop", "calls": "tool_calls"},
    "openai-responses": {"stop": "completed", "calls": "completed"},
    "anthropic": {"stop": "end_turn", "calls": "tool_use", "refusal": "refusal"},
    "gemini": {"stop": "STOP", "calls": "STOP"},
    "ollama": {"stop": "stop", "calls": "stop"},
}
"""Finish reasons by dialect; a dialect without one for refusals uses that of a normal end."""
_GROUPING_DIALECTS: Final = frozenset(("openai-chat", "ollama"))
"""The dialects whose non-streamed messages have a single text and a single list of calls."""
_DIALECTS_WITHOUT_REFUSALS: Final = frozenset(("gemini", "ollama"))
"""The dialects that represent a refusal as text."""


@dataclass(frozen=True, slots=True)
class ExpectedTurn:
    """An expected turn, independent of any dialect."""

    parts: tuple[ResponsePart, ...]
    usage: tuple[int, int] = (64, 32)
    signatures: Mapping[str, list[str]] = field(default_factory=dict)
    """By dialect."""

    def expected_response(self, dialect: str, *, stream: bool) -> SdkResponse:
        """Return the response that this dialect's SDK must produce for it."""
        kinds = {part[0] for part in self.parts}
        finish_kind = "calls" if "call" in kinds else "refusal" if "refusal" in kinds else "stop"
        finish_reasons = _FINISH_REASONS[dialect]
        parts = list(self.parts)
        if dialect in _DIALECTS_WITHOUT_REFUSALS:
            parts = [("text", part[1]) if part[0] == "refusal" else part for part in parts]
        groups_parts = dialect in _GROUPING_DIALECTS and not stream
        return SdkResponse(
            group_parts_by_kind(parts) if groups_parts else merge_parts(parts),
            finish_reasons.get(finish_kind, finish_reasons["stop"]),
            self.usage,
            self.signatures.get(dialect, []),
        )


@dataclass(frozen=True, slots=True)
class PlayedScenario:
    """A scenario's expected turns, and the conversation that requests them."""

    turns: tuple[ExpectedTurn, ...]
    changed_fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the `ConversationPlan` that differ from the default."""

    def conversation_plan(self, name: str, dialect: str, *, stream: bool) -> ConversationPlan:
        """Return the conversation plan; by default its first message is the scenario's id."""
        plan_fields = {"say": name, "turns": len(self.turns), **self.changed_fields}
        if dialect == "ollama" and plan_fields.get("metadata"):  # its client cannot send metadata
            plan_fields |= {"scenario": name, "metadata": {}}
        return ConversationPlan("", stream=stream, **plan_fields)


def text_part(content: str) -> ResponsePart:
    return ("text", content)


def reasoning_part(content: str) -> ResponsePart:
    return ("reasoning", content)


def call_part(name: str, **arguments: Any) -> ResponsePart:
    return ("call", name, arguments)


def played_scenario(*turns: ExpectedTurn | ResponsePart, **changed_fields: Any) -> PlayedScenario:
    """A scenario of these turns; a part given alone is the only part of its turn."""
    return PlayedScenario(
        tuple(turn if isinstance(turn, ExpectedTurn) else ExpectedTurn((turn,)) for turn in turns),
        changed_fields,
    )


_ANTHROPIC_SIGNATURE: Final = "EqQBCkYIARgC"

PLAYED_SCENARIOS: Final[dict[str, PlayedScenario]] = {
    "refund": played_scenario(
        ExpectedTurn((text_part("Let me look that up."), call_part("lookup_order", order=42))),
        ExpectedTurn(
            (
                text_part("It can be refunded."),
                call_part("refund_order", order=42, amount=19.9, note="Grüße 🌍"),
            )
        ),
        ExpectedTurn((text_part("Done: refunds take 3 business days."),), (120, 9)),
        system="You are a support agent.",
        tools={"lookup_order": ANY_OBJECT, "refund_order": ANY_OBJECT},
    ),
    "camel": played_scenario(
        ExpectedTurn(
            (
                reasoning_part("Which order?"),
                text_part("Looking."),
                call_part("lookup", orderId=42),
            ),
            (10, 5),
            {"anthropic": [_ANTHROPIC_SIGNATURE]},
        ),
    ),
    # Anthropic's SDK has no argument for either since 2.0: they are sent in its `extra_body`.
    "warm": played_scenario(text_part("As it should be."), temperature=0.7, top_p=0.9),
    "thoughtful": played_scenario(
        text_part("I thought about it."), text_part("No need to think."), reasoned=(1,)
    ),
    "equipped": played_scenario(text_part("All there."), tools={"lookup_order": ANY_OBJECT}),
    "unequipped": played_scenario(text_part("Nothing needed.")),
    "report": played_scenario(
        ExpectedTurn(
            (
                text_part("Here is my report."),
                call_part(
                    "agent__final_report",
                    status="success",
                    report_format="markdown",
                    report_content="# Summary\nAll is well.\n",
                    content_json={"ok": True, "items": [1, 2.5]},
                ),
            )
        )
    ),
    "form": played_scenario(text_part('{"city":"Bonn"}'), schema=CITY_SCHEMA),
    "call-made": played_scenario(call_part("book", day="Monday"), tools={"book": DAY_SCHEMA}),
    "echo-model": played_scenario(text_part("You asked some-model.")),
    "react": played_scenario(
        text_part('Thought: I need the weather.\nAction: weather\nAction Input: {"city":"Bonn"}\n'),
        text_part("Thought: I know it now.\nFinal Answer: It rains."),
    ),
    "call-first": played_scenario(
        call_part("now"), say="Time?", model="tool-1", tools={"now": ANY_OBJECT}
    ),
    "answer-after-tools": played_scenario(
        call_part("now"),
        text_part("So that is it."),
        say="Time?",
        model="tool-1",
        tools={"now": ANY_OBJECT},
    ),
    "urgent": played_scenario(
        text_part("At once."), say="It is Urgent!", metadata={"team": "support"}
    ),
    "in-german": played_scenario(
        text_part("Guten Tag."), say="Good day", system="Antworte auf Deutsch."
    ),
    "think": played_scenario(
        ExpectedTurn(
            (reasoning_part("Let me see.Yes, that is it."), text_part("42.")),
            signatures={"anthropic": [_ANTHROPIC_SIGNATURE], "gemini": ["Q2pRQg=="]},
        )
    ),
    "think-sealed": played_scenario(
        ExpectedTurn(
            (reasoning_part("Aloud, then."), text_part("Done.")),
            signatures={"anthropic": ["EmwKAhgBEgy3va3pzix"], "openai-responses": ["gAAAAABo"]},
        ),
        reasoned=(1,),
    ),
    # The second request enables reasoning, but the history's reasoning is unsigned: counts as off.
    "think-and-call": played_scenario(
        ExpectedTurn((reasoning_part("I need the weather."), call_part("weather", city="Bonn"))),
        text_part("It rains in Bonn."),
        tools={"weather": ANY_OBJECT},
        reasoned=(1, 2),
    ),
    "typed": played_scenario(text_part("One word comes after the other.")),
    "fragments": played_scenario(
        ExpectedTurn(
            (
                call_part("search", query="weather in Bonn", limit=3),
                call_part("search", query="weather in Köln", limit=3),
            )
        )
    ),
    "in-order": played_scenario(
        ExpectedTurn(
            (
                call_part("search", query="Bonn"),
                text_part("And now the other one."),
                call_part("search", query="Köln"),
            )
        )
    ),
    "in-pieces": played_scenario(text_part("Grüße in kleinen Stücken 🌍.")),
    "refused": played_scenario(("refusal", "I cannot help with that.")),
}
"""The scenarios that succeed at the first attempt."""

TEXT_WITHOUT_BODY_MODEL: Final = {("echo-model", "gemini"): text_part("You asked .")}
"""The expected part if a template refers to a body field that the request has in its URL only."""


@dataclass(frozen=True, slots=True)
class FailingScenario:
    """A scenario that fails before it succeeds."""

    text: str
    """The text of its final response."""
    expected_errors: Mapping[str, list[str]]
    """Exceptions raised before, by dialect; with `, stream` or `, whole` where these differ."""
    statuses: list[int]
    """HTTP status of every attempt; 0 if there is none."""
    whole_statuses: list[int] | None = None
    """The statuses of a response that is not streamed, if they differ."""
    changed_fields: Mapping[str, Any] = field(default_factory=dict)
    sdk_retries: bool = True
    """Whether the SDKs of OpenAI and Anthropic retry by themselves until they get a response."""


def one_error_each(openai: str, anthropic: str, gemini: str, ollama: str) -> dict[str, list[str]]:
    """The exception that each SDK raises once."""
    both_openai = {"openai-chat": openai, "openai-responses": openai}
    expected_errors = {**both_openai, "anthropic": anthropic, "gemini": gemini, "ollama": ollama}
    return {dialect: [name] for dialect, name in expected_errors.items()}


_SERVER_ERRORS = one_error_each(
    "InternalServerError", "InternalServerError", "ServerError", "ResponseError"
)
_JSON_ERROR = "json.JSONDecodeError"

FAILING_SCENARIOS: Final[dict[str, FailingScenario]] = {
    "busy": FailingScenario(
        "Thank you for waiting.",
        {
            dialect: names * 2
            for dialect, names in one_error_each(
                "RateLimitError", "RateLimitError", "ClientError", "ResponseError"
            ).items()
        },
        [429, 429, 200],
    ),
    "limited": FailingScenario(
        "Now it is your turn.",
        one_error_each("RateLimitError", "RateLimitError", "ClientError", "ResponseError"),
        [429, 200],
    ),
    "overloaded": FailingScenario(
        "Here I am.",
        _SERVER_ERRORS | {"anthropic": ["ServiceUnavailableError"]},
        [503, 200],
    ),
    "too-long": FailingScenario(
        "Shorter is better.",
        one_error_each("BadRequestError", "BadRequestError", "ClientError", "ResponseError"),
        [400, 200],
        sdk_retries=False,
    ),
    "thrown": FailingScenario("Calm again.", _SERVER_ERRORS, [500, 200]),
    "lost": FailingScenario(
        "Found again.",
        one_error_each(
            "APIConnectionError", "APIConnectionError", "httpx2.ReadError", "httpx.ReadError"
        ),
        [0, 200],
    ),
    "cut": FailingScenario(
        "Whole this time.",
        _SERVER_ERRORS
        | {
            f"{dialect}, stream": names
            for dialect, names in one_error_each(
                "APIConnectionError", "httpx2.ReadError", "httpx2.ReadError", "httpx.ReadError"
            ).items()
        },
        [200, 200],
        [502, 200],
        sdk_retries=False,
    ),
    "garbled": FailingScenario(
        "Clear this time.",
        one_error_each(_JSON_ERROR, _JSON_ERROR, _JSON_ERROR, _JSON_ERROR)
        | {"gemini, stream": ["UnknownApiResponseError"]},
        [200, 200],
        sdk_retries=False,
    ),
    "silent": FailingScenario(
        "Sorry for the wait.",
        one_error_each(
            "APITimeoutError", "APITimeoutError", "httpx2.ReadTimeout", "httpx.ReadTimeout"
        ),
        [0, 200],
        changed_fields={"patience": 0.8},
    ),
}
"""The scenarios that fail before they succeed."""
