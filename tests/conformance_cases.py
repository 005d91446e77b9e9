"""The turns that every client must hear as they were told, and a provider that tells them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from llm_proxy.dialects import Dialect, DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.turns import (
    Failure,
    Finish,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Turn,
    Usage,
)


@dataclass(frozen=True, slots=True)
class Case:
    """One answer of a provider."""

    name: str
    turn: Turn
    status: int = 200
    """Another status than that of success is an HTTP error, told by the turn's failure."""

    @property
    def calls_tools(self) -> bool:
        """Whether the client must know the tool."""
        return any(isinstance(part, ToolCall) for part in self.turn.parts)


_PARIS: Final = ToolCall("call_paris", "get_weather", '{"city":"Paris"}')
_TOKYO: Final = ToolCall("call_tokyo", "get_weather", '{"city":"東京","when":{"days":[1,2.5]}}')
_COST: Final = Usage(input=64, output=32)
_FOREIGN: Final = (
    "Grüße, 日本語のテキスト, עברית, \u0928\u092e\u0938\u094d\u0924\u0947, "
    "🌊👩\u200d👩\u200d👧𝄞\u2028\u0085\u2029!"
)
_LONG: Final = " ".join(f"word{number}" for number in range(2500))
_BUSY: Final = Failure("The model is overloaded, please come back later")

CASES: Final = (
    Case("text", Turn((Text("Hello, how can I help you today?"),), Finish.STOP, usage=_COST)),
    Case(
        "reasoning",
        Turn(
            (Reasoning("They said hello. I greet back.", signature="c2VhbA=="), Text("Hello!")),
            Finish.STOP,
            usage=Usage(input=64, output=32, reasoning=16),
        ),
    ),
    Case(
        "text-call-text",
        Turn((Text("Let me look. "), _PARIS, Text("I asked.")), Finish.TOOL_CALLS, usage=_COST),
    ),
    Case("calls", Turn((_PARIS, _TOKYO), Finish.TOOL_CALLS, usage=_COST)),
    Case("call-bare", Turn((ToolCall("call_now", "get_weather", "{}"),), usage=_COST)),
    Case("refusal", Turn((Refusal("I can't help with that."),), Finish.REFUSAL, usage=_COST)),
    Case("length", Turn((Text("It was a dark and"),), Finish.LENGTH, usage=_COST)),
    Case("foreign", Turn((Text(_FOREIGN),), Finish.STOP, usage=_COST)),
    Case("empty", Turn((), Finish.STOP, usage=Usage(input=64, output=0))),
    Case("long", Turn((Text(_LONG),), Finish.STOP, usage=_COST)),
    Case("error-amid", Turn((Text("Hello, how"),), failure=_BUSY)),
    *(
        Case(f"error-{status}", Turn((), failure=Failure(f"told with {status}")), status)
        for status in (400, 401, 403, 404, 429, 500, 503)
    ),
)  # fmt: skip

CALLING: Final = {case.name for case in CASES if case.calls_tools}
"""The cases that a dialect without tools refuses to tell."""

_BY_NAME: Final = {case.name: case for case in CASES}
_QUESTION: Final = re.compile(rb"\[\[([a-z0-9-]+ [a-z]+ ([a-z0-9-]+))\]\]")


def question(dialect: str, mode: str, case: Case) -> str:
    """The user's message that asks for a case; it names the ask."""
    return f"[[{dialect} {mode} {case.name}]]"


@dataclass
class Told:
    """A provider that tells the cases, and what it told to whom."""

    turns: dict[str, Turn] = field(default_factory=dict)
    """For each question, the turn that was told."""
    statuses: dict[str, int] = field(default_factory=dict)
    """For each question, the status of its answer."""
    refused: dict[str, str] = field(default_factory=dict)
    """For each question that its dialect has no words for, why."""

    def answer(
        self, dialect: Dialect, request: Request, delivery: EncodeContext
    ) -> DialectResponse:
        """The case that is asked for, in words of the dialect."""
        found = _QUESTION.search(request.body)
        assert found is not None, request.body
        case = _BY_NAME[found[2].decode()]
        asked = f"[[{found[1].decode()}]]"
        try:
            response = _told(case, dialect, request, delivery)
        except NotRepresentable as error:
            self.refused[asked] = str(error)
            return dialect.error_response(501, Failure(str(error)), delivery)
        [self.turns[asked]] = dialect.decode(response)
        self.statuses[asked] = response.head.status
        return response


def _told(
    case: Case, dialect: Dialect, request: Request, delivery: EncodeContext
) -> DialectResponse:
    if case.status != 200:
        assert case.turn.failure is not None
        return dialect.error_response(case.status, case.turn.failure, delivery)
    return dialect.encode(request, (case.turn,), delivery)
