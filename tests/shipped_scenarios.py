"""How every shipped scenario is played, and what is heard: the same in all dialects, but for words.

What SDKs raise where a scenario fails is theirs; `docs/scenario-failures.md` has more of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from conversation_plans import Heard, Said, Talk, in_one_place_each, merged

CASSETTES: Final = Path(__file__).parents[1] / "cassettes"
FOLDER: Final = CASSETTES / "scenarios"
MOCK: Final = CASSETTES / "mocks" / "lookup.yaml"

ANY: Final = {"type": "object"}
DAY: Final = {
    "type": "object",
    "properties": {"day": {"type": "string", "enum": ["Monday"]}},
    "required": ["day"],
    "additionalProperties": False,
}
"""A schema that one value alone fits."""
CITY: Final = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

_FINISHES: Final[dict[str, dict[str, str]]] = {
    "openai-chat": {"stop": "stop", "calls": "tool_calls"},
    "openai-responses": {"stop": "completed", "calls": "completed"},
    "anthropic": {"stop": "end_turn", "calls": "tool_use", "refusal": "refusal"},
    "gemini": {"stop": "STOP", "calls": "STOP"},
    "ollama": {"stop": "stop", "calls": "stop"},
}
"""Each dialect's word for an end; one that has none for refusals takes that for a normal end."""
_IN_ONE_PLACE: Final = frozenset(("openai-chat", "ollama"))
"""The dialects whose whole messages have one text and one list of calls."""
_NO_REFUSALS: Final = frozenset(("gemini", "ollama"))
"""The dialects that tell a refusal as text."""


@dataclass(frozen=True, slots=True)
class Turn:
    """An answer, free of any dialect."""

    parts: tuple[Said, ...]
    usage: tuple[int, int] = (64, 32)
    seals: Mapping[str, list[str]] = field(default_factory=dict)
    """By dialect."""

    def heard(self, dialect: str, *, stream: bool) -> Heard:
        """What this dialect's SDK hears of it."""
        kinds = {part[0] for part in self.parts}
        ends = "calls" if "call" in kinds else "refusal" if "refusal" in kinds else "stop"
        words = _FINISHES[dialect]
        parts = list(self.parts)
        if dialect in _NO_REFUSALS:
            parts = [("text", part[1]) if part[0] == "refusal" else part for part in parts]
        gathers = dialect in _IN_ONE_PLACE and not stream
        return Heard(
            in_one_place_each(parts) if gathers else merged(parts),
            words.get(ends, words["stop"]),
            self.usage,
            self.seals.get(dialect, []),
        )


@dataclass(frozen=True, slots=True)
class Played:
    """How a scenario is played."""

    turns: tuple[Turn, ...]
    more: Mapping[str, Any] = field(default_factory=dict)
    """What of a talk is not as it always is."""

    def talk(self, name: str, dialect: str, *, stream: bool) -> Talk:
        """The talk that plays it; by default its first message is the scenario's id."""
        more = {"say": name, "turns": len(self.turns), **self.more}
        if dialect == "ollama" and more.get("metadata"):  # which its client cannot send
            more |= {"scenario": name, "metadata": {}}
        return Talk("", stream=stream, **more)


def text(words: str) -> Said:
    return ("text", words)


def thought(words: str) -> Said:
    return ("reasoning", words)


def call(name: str, **arguments: Any) -> Said:
    return ("call", name, arguments)


def plays(*turns: Turn | Said, **more: Any) -> Played:
    """A scenario of these answers; one that is a part alone is all of its answer."""
    return Played(tuple(turn if isinstance(turn, Turn) else Turn((turn,)) for turn in turns), more)


_ANTHROPIC: Final = "EqQBCkYIARgC"

PLAYED: Final[dict[str, Played]] = {
    "refund": plays(
        Turn((text("Let me look that up."), call("lookup_order", order=42))),
        Turn((
            text("It can be refunded."),
            call("refund_order", order=42, amount=19.9, note="Grüße 🌍"),
        )),
        Turn((text("Done: refunds take 3 business days."),), (120, 9)),
        system="You are a support agent.",
        tools={"lookup_order": ANY, "refund_order": ANY},
    ),
    "camel": plays(
        Turn(
            (thought("Which order?"), text("Looking."), call("lookup", orderId=42)), (10, 5),
            {"anthropic": [_ANTHROPIC]},
        ),
    ),
    # Anthropic's SDK has no argument for either of them since 2.0: they go in its `extra_body`.
    "warm": plays(text("As it should be."), temperature=0.7, top_p=0.9),
    "thoughtful": plays(text("I thought about it."), text("No need to think."), reasoned=(1,)),
    "equipped": plays(text("All there."), tools={"lookup_order": ANY}),
    "unequipped": plays(text("Nothing needed.")),
    "report": plays(Turn((
        text("Here is my report."),
        call(
            "agent__final_report", status="success", report_format="markdown",
            report_content="# Summary\nAll is well.\n",
            content_json={"ok": True, "items": [1, 2.5]},
        ),
    ))),
    "form": plays(text('{"city":"Bonn"}'), schema=CITY),
    "call-made": plays(call("book", day="Monday"), tools={"book": DAY}),
    "echo-model": plays(text("You asked some-model.")),
    "react": plays(
        text('Thought: I need the weather.\nAction: weather\nAction Input: {"city":"Bonn"}\n'),
        text("Thought: I know it now.\nFinal Answer: It rains."),
    ),
    "call-first": plays(call("now"), say="Time?", model="tool-1", tools={"now": ANY}),
    "answer-after-tools": plays(
        call("now"), text("So that is it."), say="Time?", model="tool-1", tools={"now": ANY}
    ),
    "urgent": plays(text("At once."), say="It is Urgent!", metadata={"team": "support"}),
    "in-german": plays(text("Guten Tag."), say="Good day", system="Antworte auf Deutsch."),
    "think": plays(Turn(
        (thought("Let me see.Yes, that is it."), text("42.")),
        seals={"anthropic": [_ANTHROPIC], "gemini": ["Q2pRQg=="]},
    )),
    "think-sealed": plays(
        Turn(
            (thought("Aloud, then."), text("Done.")),
            seals={"anthropic": ["EmwKAhgBEgy3va3pzix"], "openai-responses": ["gAAAAABo"]},
        ),
        reasoned=(1,),
    ),
    # The second request has reasoning on, and the history's bears no signature: it counts as off.
    "think-and-call": plays(
        Turn((thought("I need the weather."), call("weather", city="Bonn"))),
        text("It rains in Bonn."),
        tools={"weather": ANY},
        reasoned=(1, 2),
    ),
    "typed": plays(text("One word comes after the other.")),
    "fragments": plays(Turn((
        call("search", query="weather in Bonn", limit=3),
        call("search", query="weather in Köln", limit=3),
    ))),
    "in-order": plays(Turn((
        call("search", query="Bonn"), text("And now the other one."), call("search", query="Köln"),
    ))),
    "in-pieces": plays(text("Grüße in kleinen Stücken 🌍.")),
    "refused": plays(("refusal", "I cannot help with that.")),
}  # fmt: skip
"""The scenarios that answer at once."""

IN_THE_URL: Final = {("echo-model", "gemini"): text("You asked .")}
"""What stands for a template where the request has what it looks for in its URL alone."""


@dataclass(frozen=True, slots=True)
class Failing:
    """A scenario that fails first."""

    says: str
    """Its answer in the end."""
    raised: Mapping[str, list[str]]
    """What is raised before, by dialect, and `stream` or `whole` behind it where that matters."""
    statuses: list[int]
    """Of every attempt on the wire; 0 is none."""
    whole: list[int] | None = None
    """The same of an answer that is no stream, where it is another."""
    more: Mapping[str, Any] = field(default_factory=dict)
    swallowed: bool = True
    """Whether the SDKs of OpenAI and Anthropic ask again by themselves until there is an answer."""


def each(openai: str, anthropic: str, gemini: str, ollama: str) -> dict[str, list[str]]:
    """What each SDK raises once."""
    twice = {"openai-chat": openai, "openai-responses": openai}
    raised = {**twice, "anthropic": anthropic, "gemini": gemini, "ollama": ollama}
    return {dialect: [name] for dialect, name in raised.items()}


_SERVER = each("InternalServerError", "InternalServerError", "ServerError", "ResponseError")
_BROKEN = "json.JSONDecodeError"

FAILING: Final[dict[str, Failing]] = {
    "busy": Failing(
        "Thank you for waiting.",
        {
            dialect: names * 2
            for dialect, names in each(
                "RateLimitError", "RateLimitError", "ClientError", "ResponseError"
            ).items()
        },
        [429, 429, 200],
    ),
    "limited": Failing(
        "Now it is your turn.",
        each("RateLimitError", "RateLimitError", "ClientError", "ResponseError"),
        [429, 200],
    ),
    "overloaded": Failing(
        "Here I am.",
        _SERVER | {"anthropic": ["ServiceUnavailableError"]},
        [503, 200],
    ),
    "too-long": Failing(
        "Shorter is better.",
        each("BadRequestError", "BadRequestError", "ClientError", "ResponseError"),
        [400, 200],
        swallowed=False,
    ),
    "thrown": Failing("Calm again.", _SERVER, [500, 200]),
    "lost": Failing(
        "Found again.",
        each("APIConnectionError", "APIConnectionError", "httpx2.ReadError", "httpx.ReadError"),
        [0, 200],
    ),
    "cut": Failing(
        "Whole this time.",
        _SERVER
        | {
            f"{dialect}, stream": names
            for dialect, names in each(
                "APIConnectionError", "httpx2.ReadError", "httpx2.ReadError", "httpx.ReadError"
            ).items()
        },
        [200, 200],
        [502, 200],
        swallowed=False,
    ),
    "garbled": Failing(
        "Clear this time.",
        each(_BROKEN, _BROKEN, _BROKEN, _BROKEN) | {"gemini, stream": ["UnknownApiResponseError"]},
        [200, 200],
        swallowed=False,
    ),
    "silent": Failing(
        "Sorry for the wait.",
        each("APITimeoutError", "APITimeoutError", "httpx2.ReadTimeout", "httpx.ReadTimeout"),
        [0, 200],
        more={"patience": 0.8},
    ),
}
"""The scenarios that fail before they answer."""
