"""What every judge in Python does alike: it is asked, hears its client, and tells what it heard.

A judge is a program beside an official client; it knows nothing of llm-proxy.  `run` speaks the
protocol of judges: one JSON document on stdin, one JSON line an ask on stdout.

    PYTHONPATH=tests/judges/protocol python tests/judges/groq/judge.py < asks.json

Everything told comes from the client's own objects.  What the client raises is part of what was
heard; what the judge's own code raises ends the program.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

KEY: Final = "sk-dummy-of-a-judge"
"""The key that every client is given."""
TIMEOUT: Final = 20.0
"""Seconds that a client waits for more."""
TOOL: Final = "get_weather"
TOOL_SAYS: Final = "The weather in a city"
PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
"""The one tool that an ask can offer."""
FUNCTION: Final[dict[str, Any]] = {
    "type": "function",
    "function": {"name": TOOL, "description": TOOL_SAYS, "parameters": PARAMETERS},
}
"""The same, as OpenAI's chat and all that follow it spell it."""

_STATUSES: Final = ("status_code", "code")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ask:
    """One question."""

    id: str
    dialect: str
    model: str
    stream: bool
    say: str
    """The text of the one user message."""
    tools: bool = False

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The user message as most APIs take it."""
        return [{"role": "user", "content": self.say}]


@dataclass(slots=True)
class Call:
    """A tool call; `arguments` is text as long as it streams, or the value that a client gives."""

    id: str | None
    name: str
    arguments: Any

    def told(self) -> dict[str, Any]:
        """The call with its arguments parsed, where they are JSON."""
        return {"id": self.id, "name": self.name, "arguments": _parsed(self.arguments)}


@dataclass(slots=True)
class Heard:
    """What one ask heard.  None is what a client cannot tell, or was not told."""

    text: str | None = ""
    reasoning: str | None = None
    refusal: str | None = None
    calls: dict[Any, Call] | None = field(default_factory=dict)
    """By what a stream knows them by, in the order in which they began."""
    finish: str | None = None
    usage: dict[str, int | None] | None = None
    error: dict[str, Any] | None = None

    def listen(self, start: Callable[[], Iterable[T]]) -> Iterator[T]:
        """What the client gives.  What it raises is kept as the error, and ends it.

        `start` is run inside, so what the client raises before it gives anything is heard too.
        """
        try:
            yield from start()
        except Exception as error:  # clients raise far more than their own errors
            self.failed(type(error).__name__, status_of(error), str(error))

    def failed(self, kind: str, status: int | None, message: str) -> None:
        """An error, unless one came before."""
        self.error = self.error or {"type": kind, "status": status, "message": message}

    def say(self, text: str | None) -> None:
        """More text."""
        self.text = (self.text or "") + (text or "")

    def think(self, text: str | None) -> None:
        """More reasoning."""
        self.reasoning = (self.reasoning or "") + (text or "")

    def refuse(self, text: str | None) -> None:
        """More of a refusal."""
        self.refusal = (self.refusal or "") + (text or "")

    def call(self, of: Any, name: str | None, arguments: Any, known_as: Any = None) -> None:
        """A tool call of this id: its beginning or, where it is `known_as` before, more of it."""
        calls = self.calls = {} if self.calls is None else self.calls
        key = len(calls) if known_as is None else known_as
        if key not in calls:
            calls[key] = Call(of, name or "", "" if arguments is None else arguments)
        else:
            calls[key].arguments += arguments or ""
            calls[key].id = calls[key].id or of
            calls[key].name = calls[key].name or name or ""

    def count(self, read: int | None, written: int | None) -> None:
        """Tokens in and out, where the client gives any."""
        if read is not None or written is not None:
            self.usage = {"input": read, "output": written}

    def told(self, ask: str) -> dict[str, Any]:
        """The answer to an ask of this id."""
        calls = None if self.calls is None else [it.told() for it in self.calls.values()]
        fields = {name: getattr(self, name) for name in ("text", "reasoning", "refusal")}
        rest = {"finish": self.finish, "usage": self.usage, "error": self.error}
        return {"id": ask, **fields, "calls": calls, **rest}


def status_of(error: Exception) -> int | None:
    """The HTTP status that an exception of a client carries."""
    response = getattr(error, "response", None)
    aws = response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}
    given = (*(getattr(error, name, None) for name in _STATUSES), aws.get("HTTPStatusCode"))
    return next((it for it in given if isinstance(it, int) and it > 0), None)


def run(judge: Callable[[str], Callable[[Ask], Heard]]) -> None:
    """Answer what stdin asks.  `judge` makes, of the proxy's URL, what answers one ask."""
    asked = json.load(sys.stdin)
    answer = judge(asked["url"])
    for it in asked["asks"]:
        ask = Ask(**it)
        print(json.dumps(answer(ask).told(ask.id)), flush=True)


def plain(value: Any) -> str | None:
    """A word of a client, which may be an enum's."""
    return None if value is None else str(getattr(value, "value", value))


def _parsed(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
