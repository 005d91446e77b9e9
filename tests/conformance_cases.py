"""The turns that every client must receive as they were encoded, and a provider that sends them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from llm_proxy.dialects import Dialect, DialectResponse
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request
from llm_proxy.turns import (
    Failure,
    FinishReason,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Turn,
    Usage,
)
from thoroughness import quick_or_thorough


@dataclass(frozen=True, slots=True)
class Case:
    """One response of a provider."""

    name: str
    turn: Turn
    status: int = 200
    """The HTTP status; other than 200, the response is an HTTP error made of the turn's failure."""

    @property
    def calls_tools(self) -> bool:
        """Whether the turn has tool calls, so that the request must offer the tool."""
        return any(isinstance(part, ToolCall) for part in self.turn.parts)


_PARIS: Final = ToolCall("call_paris", "get_weather", '{"city":"Paris"}')
_TOKYO: Final = ToolCall("call_tokyo", "get_weather", '{"city":"東京","when":{"days":[1,2.5]}}')
_USAGE: Final = Usage(input=64, output=32)
_NON_ASCII: Final = (
    "Grüße, 日本語のテキスト, עברית, \u0928\u092e\u0938\u094d\u0924\u0947, "
    "🌊👩\u200d👩\u200d👧𝄞\u2028\u0085\u2029!"
)
_LONG: Final = " ".join(f"word{number}" for number in range(quick_or_thorough(150, 2500)))
_OVERLOADED: Final = Failure("The model is overloaded, please come back later")

CASES: Final = (
    Case(
        "text", Turn((Text("Hello, how can I help you today?"),), FinishReason.STOP, usage=_USAGE)
    ),
    Case(
        "reasoning",
        Turn(
            (Reasoning("They said hello. I greet back.", signature="c2VhbA=="), Text("Hello!")),
            FinishReason.STOP,
            usage=Usage(input=64, output=32, reasoning=16),
        ),
    ),
    Case(
        "text-call-text",
        Turn(
            (Text("Let me look. "), _PARIS, Text("I asked.")), FinishReason.TOOL_CALLS, usage=_USAGE
        ),
    ),
    Case("calls", Turn((_PARIS, _TOKYO), FinishReason.TOOL_CALLS, usage=_USAGE)),
    Case("call-bare", Turn((ToolCall("call_now", "get_weather", "{}"),), usage=_USAGE)),
    Case(
        "refusal", Turn((Refusal("I can't help with that."),), FinishReason.REFUSAL, usage=_USAGE)
    ),
    Case("length", Turn((Text("It was a dark and"),), FinishReason.LENGTH, usage=_USAGE)),
    Case("foreign", Turn((Text(_NON_ASCII),), FinishReason.STOP, usage=_USAGE)),
    Case("empty", Turn((), FinishReason.STOP, usage=Usage(input=64, output=0))),
    Case("long", Turn((Text(_LONG),), FinishReason.STOP, usage=_USAGE)),
    Case("error-amid", Turn((Text("Hello, how"),), failure=_OVERLOADED)),
    *(
        Case(f"error-{status}", Turn((), failure=Failure(f"told with {status}")), status)
        for status in quick_or_thorough((429, 500), (400, 401, 403, 404, 429, 500, 503))
    ),
)

_CASES_BY_NAME: Final = {case.name: case for case in CASES}
_PROMPT_PATTERN: Final = re.compile(rb"\[\[([a-z0-9-]+ [a-z]+ ([a-z0-9-]+))\]\]")


def case_prompt(dialect: str, mode: str, case: Case) -> str:
    """The user message that requests a case; unique by dialect, mode and case."""
    return f"[[{dialect} {mode} {case.name}]]"


@dataclass
class ConformanceProvider:
    """A provider that responds with the requested case, and keeps what it sent, by prompt."""

    turns_by_prompt: dict[str, Turn] = field(default_factory=dict)
    """The turn that was sent, decoded again."""
    statuses_by_prompt: dict[str, int] = field(default_factory=dict)
    """The HTTP status of the response."""
    errors_by_prompt: dict[str, str] = field(default_factory=dict)
    """Why the dialect cannot represent the case, where it cannot."""

    def respond(
        self, dialect: Dialect, request: Request, context: EncodeContext
    ) -> DialectResponse:
        """The response with the requested case; a 501 error where it has no representation."""
        match = _PROMPT_PATTERN.search(request.body)
        assert match is not None, request.body
        case = _CASES_BY_NAME[match[2].decode()]
        prompt = f"[[{match[1].decode()}]]"
        try:
            response = _encode_case(case, dialect, request, context)
        except NotRepresentable as error:
            self.errors_by_prompt[prompt] = str(error)
            return dialect.error_response(501, Failure(str(error)), context)
        [self.turns_by_prompt[prompt]] = dialect.decode_response(response)
        self.statuses_by_prompt[prompt] = response.head.status
        return response


def _encode_case(
    case: Case, dialect: Dialect, request: Request, context: EncodeContext
) -> DialectResponse:
    if case.status != 200:
        assert case.turn.failure is not None
        return dialect.error_response(case.status, case.turn.failure, context)
    return dialect.encode_response(request, (case.turn,), context)
