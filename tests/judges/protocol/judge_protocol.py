"""The protocol that every Python judge speaks, and the response that a judge reports.

A judge is a program that runs an official client; it knows nothing of llm-proxy.  `run` implements
the protocol: on stdin, JSON lines with a URL and requests to it; on stdout, one JSON line for each
request.

    PYTHONPATH=tests/judges/protocol python tests/judges/groq/judge.py < requests.json

Everything reported comes from the client's own objects.  An exception of the client is part of the
reported response; an exception of the judge's own code ends the program.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

API_KEY: Final = "sk-dummy-of-a-judge"
"""The API key given to every client."""
TIMEOUT_S: Final = 20.0
"""Seconds that a client waits for more data."""
TOOL_NAME: Final = "get_weather"
TOOL_DESCRIPTION: Final = "The weather in a city"
TOOL_PARAMETERS: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
"""The arguments of the one tool that a request can offer, as a JSON schema."""
OPENAI_CHAT_TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": TOOL_NAME,
        "description": TOOL_DESCRIPTION,
        "parameters": TOOL_PARAMETERS,
    },
}
"""The tool in the format of OpenAI's chat API, which many other APIs share."""

RESPONSE_FIELDS: Final = {
    "text": "text",
    "reasoning": "reasoning",
    "refusal": "refusal",
    "calls": "tool_calls",
    "finish": "finish_reason",
    "usage": "usage",
    "error": "error",
}
"""The JSON names of the fields of a response, and the attributes of `JudgeResponse`."""

_STATUS_ATTRIBUTES: Final = ("status_code", "code")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """One request that a judge sends through its client."""

    id: str
    dialect: str
    model: str
    is_streaming: bool
    prompt: str
    """The text of the one user message."""
    has_tools: bool = False
    """Whether the request offers the tool."""

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> JudgeRequest:
        """Read a request of the protocol."""
        return cls(
            id=fields["id"],
            dialect=fields["dialect"],
            model=fields["model"],
            is_streaming=fields["stream"],
            prompt=fields["say"],
            has_tools=fields.get("tools", False),
        )

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The user message in the format that most APIs take."""
        return [{"role": "user", "content": self.prompt}]


@dataclass(slots=True)
class ToolCall:
    """A tool call; `arguments` is text while it streams, or the value that the client gives."""

    id: str | None
    name: str
    arguments: Any

    def as_json(self) -> dict[str, Any]:
        """The call; arguments that are JSON text are parsed."""
        return {"id": self.id, "name": self.name, "arguments": _parse_arguments(self.arguments)}


@dataclass(slots=True)
class JudgeResponse:
    """What the client reported for one request.

    A field is None if the client cannot report it, or if the response did not contain it.
    """

    text: str | None = ""
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: dict[Any, ToolCall] | None = field(default_factory=dict)
    """By the key that identifies a call in the stream, in the order in which the calls began."""
    finish_reason: str | None = None
    usage: dict[str, int | None] | None = None
    error: dict[str, Any] | None = None

    def capture_errors(self, open_stream: Callable[[], Iterable[T]]) -> Iterator[T]:
        """Yield what the client yields.  An exception is stored as the error and ends the iterator.

        `open_stream` is called inside, so exceptions raised before the first item are stored too.
        """
        try:
            yield from open_stream()
        except Exception as error:  # clients raise far more than their own errors
            self.set_error(type(error).__name__, http_status_of(error), str(error))

    def set_error(self, error_type: str, status: int | None, message: str) -> None:
        """Store an error, unless one is stored already."""
        self.error = self.error or {"type": error_type, "status": status, "message": message}

    def add_text(self, text: str | None) -> None:
        """Append text."""
        self.text = (self.text or "") + (text or "")

    def add_reasoning(self, text: str | None) -> None:
        """Append reasoning."""
        self.reasoning = (self.reasoning or "") + (text or "")

    def add_refusal(self, text: str | None) -> None:
        """Append text of a refusal."""
        self.refusal = (self.refusal or "") + (text or "")

    def add_tool_call(
        self, call_id: Any, name: str | None, arguments: Any, stream_key: Any = None
    ) -> None:
        """Add a tool call or, if a call has this `stream_key` already, append to that call."""
        calls = self.tool_calls = {} if self.tool_calls is None else self.tool_calls
        key = len(calls) if stream_key is None else stream_key
        if key not in calls:
            calls[key] = ToolCall(call_id, name or "", "" if arguments is None else arguments)
        else:
            calls[key].arguments += arguments or ""
            calls[key].id = calls[key].id or call_id
            calls[key].name = calls[key].name or name or ""

    def set_usage(self, input_tokens: int | None, output_tokens: int | None) -> None:
        """Store the token counts, if the client gives any."""
        if input_tokens is not None or output_tokens is not None:
            self.usage = {"input": input_tokens, "output": output_tokens}

    def as_json(self, request_id: str) -> dict[str, Any]:
        """The protocol's response to the request with this id."""
        values = {name: getattr(self, attribute) for name, attribute in RESPONSE_FIELDS.items()}
        if self.tool_calls is not None:
            values["calls"] = [call.as_json() for call in self.tool_calls.values()]
        return {"id": request_id, **values}


def http_status_of(error: Exception) -> int | None:
    """The HTTP status that an exception of a client carries."""
    response = getattr(error, "response", None)
    metadata = response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}  # AWS
    candidates = (
        *(getattr(error, name, None) for name in _STATUS_ATTRIBUTES),
        metadata.get("HTTPStatusCode"),
    )
    return next((status for status in candidates if isinstance(status, int) and status > 0), None)


def run(make_judge: Callable[[str], Callable[[JudgeRequest], JudgeResponse]]) -> None:
    """Send the requests on stdin and print the responses.

    `make_judge` takes the proxy's URL and returns the function that sends one request.
    """
    for line in sys.stdin:
        document = json.loads(line)
        send_request = make_judge(document["url"])
        for fields in document["asks"]:
            request = JudgeRequest.from_json(fields)
            print(json.dumps(send_request(request).as_json(request.id)), flush=True)


def enum_value(value: Any) -> str | None:
    """A string of a client that may be a member of an enum."""
    return None if value is None else str(getattr(value, "value", value))


def _parse_arguments(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
