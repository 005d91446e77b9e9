"""The requests of a session and their responses, and how tests compare them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from llm_proxy import dialects
from llm_proxy.conversation import Conversation
from llm_proxy.dialects import lenient_json
from llm_proxy.errors import printable_excerpt
from llm_proxy.exchange import ResponseHead
from llm_proxy.faults.fault_record import FaultRecord
from llm_proxy.faults.spoiled_responses import decode_sent_response
from llm_proxy.session_documents import CallDocument
from llm_proxy.turns import Json, ToolCall, Turn

_MAX_VALUE_CHARS: Final = 200
"""Maximum length of a value in a message."""

Expected = object
"""An expected value: an equal one, a pattern that is searched in the text, or a function that
returns whether a value is right."""


@dataclass(frozen=True)
class Call:
    """One request, and what the client received."""

    document: CallDocument

    @property
    def provider(self) -> str:
        """The provider, such as `openai`."""
        return self.document.entry.provider

    @property
    def dialect(self) -> str:
        """The wire format, such as `openai-chat`."""
        return self.document.entry.dialect

    @property
    def model(self) -> str:
        """The requested model; empty if the request names none."""
        return dialects.dialect_named(self.dialect).model(self.document.request)

    @property
    def method(self) -> str:
        """The HTTP method."""
        return self.document.method

    @property
    def path(self) -> str:
        """The path, without the query and without the proxy's own prefixes."""
        return self.document.path

    @property
    def origin(self) -> str:
        """The source of the response: `live`, a cassette's file, a scenario, `miss`, …."""
        return self.document.entry.origin

    @property
    def status(self) -> int:
        """The HTTP status; 0 if the client received no response."""
        return self.document.entry.status

    @property
    def faults(self) -> tuple[FaultRecord, ...]:
        """The faults that were injected into the response."""
        return self.document.entry.injected_faults

    @property
    def body(self) -> bytes:
        """The body of the request."""
        return self.document.request_body

    @property
    def response_head(self) -> ResponseHead | None:
        """The status and headers of the response; None if the client received none."""
        return self.document.head

    @property
    def response_body(self) -> bytes:
        """The body of the response as the client received it, at most 16 MB."""
        return self.document.response_body

    @cached_property
    def json(self) -> Json:
        """The body of the request as JSON; None if it is not JSON."""
        try:
            return lenient_json.parse_json(self.body)
        except ValueError:
            return None

    @cached_property
    def conversation(self) -> Conversation | None:
        """The decoded request; None if the request is not for a turn."""
        return dialects.dialect_named(self.dialect).decode_request(self.document.request)

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        """The decoded response, one turn for each choice; empty if the response has none."""
        if self.response_head is None:
            return ()
        dialect = dialects.dialect_named(self.dialect)
        return decode_sent_response(
            dialect, self.document.request, self.response_head, self.response_body
        )

    def __repr__(self) -> str:
        model = f" ({self.model})" if self.model else ""
        return f"<{self.method} {self.path}{model}: {self.status} from {self.origin}>"


def _text_of(call: Call) -> str:
    return "".join(turn.text for turn in call.turns)


def _tool_calls_of(call: Call) -> list[tuple[str, Mapping[str, Json]]]:
    parts = (part for turn in call.turns for part in turn.parts)
    return [
        (part.name, lenient_json.parse_object(part.arguments.encode()))
        for part in parts
        if isinstance(part, ToolCall)
    ]


def _finish_of(call: Call) -> str | None:
    return next((str(turn.finish) for turn in call.turns if turn.finish is not None), None)


def _of_conversation(
    get_value: Callable[[Conversation], object],
) -> Callable[[Call], object]:
    return lambda call: None if call.conversation is None else get_value(call.conversation)


_VALUES: Final[Mapping[str, Callable[[Call], object]]] = {
    "provider": lambda call: call.provider,
    "dialect": lambda call: call.dialect,
    "model": lambda call: call.model,
    "path": lambda call: call.path,
    "status": lambda call: call.status,
    "system": _of_conversation(lambda conversation: conversation.system),
    "user": _of_conversation(lambda conversation: conversation.last_user_text),
    "tools": _of_conversation(lambda conversation: [tool.name for tool in conversation.tools]),
    "tool_results": _of_conversation(
        lambda conversation: [result.content for result in conversation.results]
    ),
    "temperature": _of_conversation(lambda conversation: conversation.temperature),
    "text": _text_of,
    "tool_calls": _tool_calls_of,
    "finish": _finish_of,
}
"""What `assert_called_with` compares, by the name of its argument."""


def assert_called_with(calls: Iterable[Call], expected: Mapping[str, Expected]) -> Call:
    """The first call that has all expected values.

    Raises `AssertionError` with the values of every call, and `TypeError` for an unknown name.
    """
    if unknown := expected.keys() - _VALUES.keys():
        raise TypeError(f"unknown values {', '.join(sorted(unknown))}; known: {', '.join(_VALUES)}")
    lines: list[str] = []
    for number, call in enumerate(calls, 1):
        differences = list(_differences(call, expected))
        if not differences:
            return call
        lines += [f"call {number}, {call!r}:", *(f"  {line}" for line in differences)]
    names = ", ".join(f"{name}={_display(value)}" for name, value in expected.items())
    raise AssertionError(
        "\n".join([f"no call has {names}", *(lines or ["the session has no calls"])])
    )


def _differences(call: Call, expected: Mapping[str, Expected]) -> Iterator[str]:
    for name, value in expected.items():
        actual = _VALUES[name](call)
        if not _is_expected(actual, value):
            yield f"{name} is {_display(actual)}"


def _is_expected(actual: object, expected: Expected) -> bool:
    if isinstance(expected, re.Pattern):
        return isinstance(actual, str) and expected.search(actual) is not None
    if callable(expected):
        return bool(expected(actual))
    return bool(actual == expected)


def _display(value: Any) -> str:
    text = f"/{value.pattern}/" if isinstance(value, re.Pattern) else repr(value)
    return printable_excerpt(text, _MAX_VALUE_CHARS)
