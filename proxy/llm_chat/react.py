"""ReAct: tool calls in plain text, for models that cannot call tools.

The instructions of `format_tools` ask the model to write

    Thought: what to do
    Action: tool_name
    Action Input: {"a": "JSON object"}

and, when it knows the answer, `Final Answer: …`.  `parse` reads such an output, and `ReactStream`
reads it while it arrives.

A marker such as `Action:` counts only at the start of a line, after spaces or tabs, in this case,
and also in bold (`**Action:**`, `**Action**:`).  Text before the first marker is plain text.  A
final answer is everything after its marker, and completes the turn whatever came before it.  Of
several actions the first counts, with the thought before it and the input after it: what follows,
such as observations that the model invents, is ignored up to a final answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn, TypeGuard

import orjson

from llm_proxy.conversation import ToolDefinition
from llm_proxy.dialects.lenient_json import compact_json
from llm_proxy.turns import Json, Reasoning, Text

INVALID_INPUT_MESSAGE: Final = (
    "Error: Action Input must be valid JSON. Please try again with proper JSON formatting."
)
"""The user message that asks the model to correct an invalid `Action Input`."""

ReactPiece = Text | Reasoning
"""Text to show at once: of the final answer or plain (`Text`), or of the thought (`Reasoning`)."""

_INSTRUCTIONS: Final = """\
You have access to the following tools:

{tools}

To use a tool, respond in this exact format:

Thought: [Your reasoning about what to do]
Action: [tool_name]
Action Input: [JSON object with parameters]

After receiving the tool result, you'll see:
Observation: [tool result]

You can then continue with more Thought/Action/Observation cycles.

When you have the final answer, respond with:
Final Answer: [Your response to the user]"""

_LABELS: Final = {
    spelling.format(label): label
    for label in ("Thought", "Action", "Action Input", "Observation", "Final Answer")
    for spelling in ("{}:", "**{}:**", "**{}**:")
}
"""The label of each marker; no marker is the beginning of another."""
_MARKERS: Final = tuple(_LABELS)
_MARKER_BEGINNINGS: Final = frozenset(
    marker[:length] for marker in _MARKERS for length in range(len(marker))
)
_LONGEST_MARKER: Final = max(map(len, _MARKERS))
_LINE_START_SPACES: Final = re.compile(r"[ \t\r\n]+")


def format_tools(tools: Sequence[ToolDefinition]) -> str:
    """The instructions for the model: the tools, and the format in which it calls them."""
    return _INSTRUCTIONS.replace("{tools}", "\n".join(map(_format_tool, tools)))


def _format_tool(tool: ToolDefinition) -> str:
    schema = {} if tool.parameters_schema is None else tool.parameters_schema
    return (
        f"- {tool.name}: {tool.description or 'No description'}\n"
        f"  Parameters: {_indented_json(schema)}"
    )


def _indented_json(value: Json) -> str:
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    except orjson.JSONEncodeError:  # lone surrogates, integers beyond 64 bits
        return json.dumps(value, indent=2)


def format_observation(result: Json) -> str:
    """The observation that shows a tool's result to the model: `Observation: ` and its JSON."""
    return f"Observation: {compact_json(result)}"


def is_valid_input(value: object) -> TypeGuard[dict[str, Json]]:
    """Whether a parsed `Action Input` is an object: not null, not an array."""
    return isinstance(value, dict)


@dataclass(frozen=True, slots=True)
class ReactOutput:
    """The fields of an output, trimmed; None for a field that is absent or empty.

    All are None if the output does not use the format.
    """

    thought: str | None = None
    action: str | None = None
    """The name of the tool: the first line after `Action:`."""
    action_input: dict[str, Json] | None = None
    """The arguments; None if they are absent or invalid."""
    action_input_text: str | None = None
    """The arguments as the model wrote them."""
    final_answer: str | None = None
    """Empty if nothing follows `Final Answer:`: the turn is complete all the same."""

    @property
    def is_tool_call(self) -> bool:
        """Whether a tool is to be called: an action without a final answer."""
        return self.action is not None and self.final_answer is None

    @property
    def has_invalid_input(self) -> bool:
        """Whether there is an `Action Input` that is not a JSON object."""
        return self.action_input_text is not None and self.action_input is None


def parse(output: str) -> ReactOutput:
    """The fields of a whole output."""
    stream = ReactStream()
    stream.feed(output)
    stream.close()
    return stream.output


def _parse_input(text: str) -> dict[str, Json] | None:
    """The JSON object in `text`, also in a fence of three backticks; None if there is none."""
    if text.startswith("```"):
        text = text.removeprefix("```").removeprefix("json").removesuffix("```")
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return value if is_valid_input(value) else None


def _refuse_constant(name: str) -> NoReturn:
    """Raises `ValueError`: Python reads `NaN` and `Infinity`, which are not JSON."""
    raise ValueError(name)


class _TrimmedText:
    """Text that arrives in pieces, without the whitespace around it."""

    __slots__ = ("_parts", "_whitespace")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._whitespace: list[str] = []
        """The whitespace after the text so far: part of it only if more text follows."""

    def __bool__(self) -> bool:
        return bool(self._parts)

    def __str__(self) -> str:
        return "".join(self._parts)

    def add(self, text: str) -> str:
        """The text that this piece adds: it ends before trailing whitespace."""
        if not self._parts:
            text = text.lstrip()
        body = text.rstrip()
        if body:
            added = "".join((*self._whitespace, body)) if self._whitespace else body
            self._whitespace.clear()
            self._parts.append(added)
        else:
            added = ""
        if len(body) < len(text):
            self._whitespace.append(text[len(body) :])
        return added

    def trailing_whitespace(self) -> str:
        """The whitespace after the text; empty if there is no text."""
        return "".join(self._whitespace)


class ReactStream:
    """Reads an output in pieces, which may be split anywhere.

    `output` is what `parse` returns for the whole text, once the stream is closed.
    """

    def __init__(self) -> None:
        self.output = ReactOutput()
        self._plain = _TrimmedText()
        self._thought = _TrimmedText()
        self._action = _TrimmedText()
        self._action_input = _TrimmedText()
        self._answer = _TrimmedText()
        self._field: _TrimmedText | None = self._plain
        """The field that text is added to; None for text that is ignored."""
        self._line_start: str | None = ""
        """The beginning of a line that may become a marker; None within a line."""
        self._is_call_complete = False
        self._unshown: list[str] = []
        """Text of the current field that is to be shown next."""

    def feed(self, piece: str) -> Sequence[ReactPiece]:
        """Read the next piece of the output; returns what to show: never a marker or an action."""
        if self._answer:  # the fast way through a long answer, in which markers do not count
            added = self._answer.add(piece)
            return (Text(added),) if added else ()
        shown: list[ReactPiece] = []
        position = 0
        while position < len(piece):
            if self._line_start is not None:
                position = self._read_line_start(piece, position, shown)
                continue
            line_end = 0 if self._field is self._answer else piece.find("\n", position) + 1
            self._add(piece[position : line_end or None])
            if not line_end:
                break
            self._line_start = ""
            position = line_end
        if self._unshown:
            self._show(shown)
        return shown

    def close(self) -> Sequence[ReactPiece]:
        """Read the end of the output; returns what remains to be shown."""
        shown: list[ReactPiece] = []
        if self._line_start:
            self._add(self._line_start)
        self._line_start = None
        self._show(shown)
        input_text = str(self._action_input) or None
        self.output = ReactOutput(
            thought=str(self._thought) or None,
            action=str(self._action).partition("\n")[0].rstrip() or None,
            action_input=None if input_text is None else _parse_input(input_text),
            action_input_text=input_text,
            final_answer=str(self._answer) if self._field is self._answer else None,
        )
        return shown

    def _read_line_start(self, piece: str, position: int, shown: list[ReactPiece]) -> int:
        """Read up to a marker, or until the line cannot become one; returns the new position."""
        if not self._line_start and (spaces := _LINE_START_SPACES.match(piece, position)):
            # They go to the field at once: a line may begin with any number of them.
            self._add(spaces[0])
            return spaces.end()
        held = self._line_start or ""
        text = held + piece[position : position + _LONGEST_MARKER]
        if text in _MARKER_BEGINNINGS:
            self._line_start = text
            return len(piece)
        self._line_start = None
        if not text.startswith(_MARKERS):
            self._add(held)
            return position
        marker = next(marker for marker in _MARKERS if text.startswith(marker))
        self._show(shown)
        self._begin(_LABELS[marker])
        return position + len(marker) - len(held)

    def _begin(self, label: str) -> None:
        """Begin the field that a marker names, or ignore its text."""
        match label:
            case "Final Answer":
                self._field = self._answer
                # Keeps it on a line of its own, after plain text that was shown before.
                self._unshown = [self._plain.trailing_whitespace()]
            case _ if self._is_call_complete:
                self._field = None
            case "Thought" if not self._thought and not self._action:
                self._field = self._thought
            case "Action" if not self._action:
                self._field = self._action
            case "Action Input" if self._action and not self._action_input:
                self._field = self._action_input
            case _:
                self._field = None
                self._is_call_complete = bool(self._action)

    def _add(self, text: str) -> None:
        field = self._field
        if field is not None:
            added = field.add(text)
            if added and field is not self._action and field is not self._action_input:
                self._unshown.append(added)

    def _show(self, shown: list[ReactPiece]) -> None:
        """Move the text that is to be shown to `shown`, as one piece."""
        if self._field is self._answer and not self._answer:
            return  # only the whitespace before the answer
        if text := "".join(self._unshown):
            shown.append(Reasoning(text) if self._field is self._thought else Text(text))
            self._unshown = []
