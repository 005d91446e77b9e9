"""The nodes of scenario files, values with their positions, parsed from YAML or JSON.

Unquoted YAML text has its value by the core schema of YAML 1.2: `no`, `on` and `12:30` are text,
`1e3` is a number.  PyYAML's parsers in C and in Python word the same errors differently; the
patterns of the plain messages match both.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from json import JSONDecodeError, JSONDecoder
from typing import Any, Final, NamedTuple, NoReturn

import yaml
from yaml import Mark
from yaml.events import (
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from llm_proxy.errors import escape_character, printable_excerpt
from llm_proxy.scenario.documents.mistakes import ROOT_PATH, DocumentMistake, child_path
from llm_proxy.yaml_composer import (
    CORE_CONSTANTS,
    DEFAULT_LOADER,
    TOO_DEEP_MESSAGE,
    Loader,
    SourceMark,
    UnreadableDocument,
    YamlComposer,
    start_mark,
)

ScalarValue = None | bool | int | float | str

MAX_VALUES: Final = 1_000_000
_MAX_NAME_CHARS: Final = 40
"""The most characters of a field name in a message."""

_INT: Final = re.compile(r"[-+]?[0-9]+")
_PREFIXED_INT: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITY: Final = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_NAN_LITERALS: Final = frozenset((".nan", ".NaN", ".NAN"))
_TYPE_BY_TAG: Final = {"null": type(None), "bool": bool, "int": int, "float": float}
_TAG_PREFIX: Final = "tag:yaml.org,2002:"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NUMBER_FIRST_CHARS: Final = frozenset("+-.0123456789")
"""The characters that a number can start with."""
_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1
_MAX_DIGITS: Final = 400
"""Longer integers are too large in any case, and slow to convert."""

_UNSUPPORTED_CHAR: Final = re.compile(
    r"[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
"""Characters that YAML forbids, and line ends of YAML 1.1 that its parsers still recognise."""
_AT_CONTEXT: Final = re.compile(
    "unexpected end of stream|unexpected document separator|could not find expected ':'"
)
"""Errors whose position is where the construct began, not where the parser failed."""
_MESSAGE_BY_ERROR: Final[Mapping[str, str]] = {
    r"mapping values are not allowed": (
        "unexpected colon; put text that contains a colon in quotes, and check the indentation"
    ),
    r"expected ',' or '\]'": "missing comma or ] in the list that starts at line {line}",
    r"expected ',' or '\}'": "missing comma or }} in the object that starts at line {line}",
    r"expected (the )?node content": "missing value, ] or }}, or an extra comma",
    r"unexpected (end of stream|document separator)": "missing closing quote",
    r"block collection.*(expected '-' indicator|but found)": (
        "this line does not continue the list that starts at line {line}; start each item with - "
        "and a space, in the same column"
    ),
    r"block mapping.*(expected key|but found)": (
        "this line does not continue the object that starts at line {line}; check the indentation, "
        "and escape quotes within quoted text"
    ),
    r"unknown escape character": (
        "unknown escape in double quotes; write \\\\ for a backslash, or use single quotes"
    ),
    r"invalid Unicode character|expected escape sequence": (
        "incomplete escape; write the character itself, or \\U and eight hexadecimal digits"
    ),
    r"could not find expected ':'": (
        "expected a colon and a space after the key that starts here; to continue the text above, "
        "indent this line"
    ),
    r"sequence entries are not allowed": (
        "the list starts on the same line as its key; put each item on a separate line"
    ),
    r"incompatible YAML document": "unsupported YAML version; use 1.1 or 1.2",
    r"undefined tag handle": "undefined tag; put text that starts with ! in quotes",
    r"expected '?<document start>": (
        "this line is not part of the object above; to continue that object, indent all its keys "
        "to the same column"
    ),
    r"comment or( a)? line break": (
        "unexpected text after | or >; start the text on the next line"
    ),
    # libyaml reads ahead and has a limit of its own since 0.2.6.
    r"exceeded maximum nesting depth": TOO_DEEP_MESSAGE,
}
"""Plain messages by a pattern of the parser's error; `line` is where the construct began."""

_JSON_SPACE: Final = re.compile(r"[ \t\r\n]*")
_JSON_WORD_OR_NUMBER: Final = re.compile(
    r"[A-Za-z_][\w.-]*|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
)
_JSON_WORDS: Final = frozenset(("true", "false", "null"))


class Node(NamedTuple):
    """A value of a file, with its position."""

    value: Any
    """A scalar; a list of nodes; of an object, the nodes by name."""
    mark: SourceMark
    source_text: str = ""
    """A scalar as written in the file, without quotes."""
    name: str = ""
    """The name of a member of an object, as written in the file."""
    name_mark: SourceMark | None = None
    struct: object = None
    """The struct of a checked object without mistakes."""

    @property
    def place(self) -> SourceMark:
        """The position of its name, if it has one, else of the value."""
        return self.name_mark or self.mark


def plain_value(node: Node) -> Any:
    """The JSON value of a node, without positions; checked objects as their structs."""
    match node.value:
        case list() as items:
            return [plain_value(item) for item in items]
        case dict() as members if node.struct is None:
            return {name: plain_value(member) for name, member in members.items()}
        case dict():
            return node.struct
        case scalar:
            return scalar


class NodeComposer(YamlComposer[Node]):
    """Composes the documents of a file; collects mistakes."""

    max_size = MAX_VALUES
    too_large_message = f"the file contains more than {MAX_VALUES:,} values; split the file"

    def __init__(self, file: str) -> None:
        super().__init__()
        self.documents: list[Node] = []
        self.mistakes: list[DocumentMistake] = []
        self.too_large_marks: set[SourceMark] = set()
        """The positions of numbers that are too large; their nodes have the source text."""
        self._file = file

    def compose_all(self, events: Iterator[Event]) -> None:
        """Add all documents of a text.  Raises `UnreadableDocument`."""
        for event in events:
            if isinstance(event, DocumentStartEvent):
                self.documents.append(self.compose(events))

    def size_of(self, event: NodeEvent) -> int:
        """Each value counts as 1."""
        return 1

    def alias_error(self, name: str, *, is_recursive: bool) -> str:
        """The message for an alias without a value."""
        if is_recursive:
            return f"the alias *{name} refers to itself; replace the alias with a value"
        return (
            f"unknown alias *{name}; define &{name} earlier in this document, or put text that "
            "starts with * in quotes"
        )

    def make_scalar(self, event: ScalarEvent) -> Node:
        """The node of a scalar; an invalid one is recorded as a mistake."""
        value: ScalarValue = event.value
        try:
            if event.tag is not None:
                value = _tagged_value(event.tag, event.value)
            elif event.implicit[0]:
                value = _scalar_value(event.value)
        except ValueError as error:
            self._add_mistake(event, str(error))
            if event.tag is None:
                self.too_large_marks.add(start_mark(event))
        if isinstance(value, str) and _SURROGATE.search(value):
            message = (
                "this escape is only half of a surrogate pair; write the character itself, or both "
                "halves"
            )
            self._add_mistake(event, message)
            value = ""
        return Node(value, start_mark(event), event.value)

    def member_name(
        self, event: Event, value: Node, members: dict[str, tuple[Event, Node]]
    ) -> str | None:
        """The name in a node; None, and a mistake, for an invalid or repeated one."""
        name = value.value
        if isinstance(name, list | dict):
            message = "expected text as the field name, got a list or an object"
        elif not isinstance(name, str):
            shown_value = value.source_text or "nothing"
            message = f"expected text as the field name, got {shown_value}; put the name in quotes"
        elif name == "<<" and isinstance(event, ScalarEvent) and event.implicit[0]:
            message = "merge keys (<<) are not supported; copy the fields here"
        elif name in members:
            first_line = start_mark(members[name][0]).line
            field = printable_excerpt(name, _MAX_NAME_CHARS)
            message = f"duplicate field '{field}'; the first one is at line {first_line}"
        else:
            return name
        self._add_mistake(event, message)
        return None

    def make_collection(
        self, event: CollectionStartEvent, content: list[Node] | dict[str, tuple[Event, Node]]
    ) -> Node:
        """The node of a list or an object."""
        is_list = isinstance(content, list)
        if event.tag not in {None, "!", f"{_TAG_PREFIX}{'seq' if is_list else 'map'}"}:
            self._add_mistake(event, _unknown_tag_message(event.tag))
        if isinstance(content, list):
            return Node(content, start_mark(event))
        members = {
            name: member._replace(name=name, name_mark=start_mark(name_event))
            for name, (name_event, member) in content.items()
        }
        return Node(members, start_mark(event))

    def _add_mistake(self, event: Event, message: str) -> None:
        """Record a mistake at the current path."""
        path = ROOT_PATH
        for step in self.path:
            path = path if step == "" else child_path(path, step)
        self.mistakes.append(DocumentMistake(self._file, *start_mark(event), path, message))


def _scalar_value(text: str) -> ScalarValue:
    """The value of unquoted text.  Raises `ValueError` for a number that is too large."""
    if text in CORE_CONSTANTS:
        return CORE_CONSTANTS[text]
    if text[0] not in _NUMBER_FIRST_CHARS:  # the most frequent case
        return text
    value: int | float
    if _INT.fullmatch(text):
        value = int(text) if len(text) <= _MAX_DIGITS else math.inf
    elif _FLOAT.fullmatch(text):
        value = float(text)
    elif _PREFIXED_INT.fullmatch(text):
        value = int(text, 0)
    elif (infinity := _INFINITY.fullmatch(text)) is not None:
        return float(f"{infinity[1]}inf")
    else:
        return math.nan if text in _NAN_LITERALS else text
    # Integers as JSON parsers limit them.
    if math.isfinite(value) and (isinstance(value, float) or _MIN_INT <= value <= _MAX_INT):
        return value
    shown = text if len(text) <= 24 else text[:21] + "…"
    raise ValueError(f"the number {shown} is too large; put it in quotes, or write fewer digits")


def _tagged_value(tag: str, text: str) -> ScalarValue:
    """The value of tagged text: `!!str 5`.  Raises `ValueError` if the tag does not fit."""
    if tag in {"!", f"{_TAG_PREFIX}str"}:
        return text
    tag_name = tag.removeprefix(_TAG_PREFIX)
    if tag_name not in _TYPE_BY_TAG or tag_name == tag:
        raise ValueError(_unknown_tag_message(tag))
    value = _scalar_value(text)
    if tag_name == "float" and type(value) is int:
        return float(value)
    if type(value) is not _TYPE_BY_TAG[tag_name]:
        raise ValueError(f"the value does not match its tag !!{tag_name}; remove the tag")
    return value


def _unknown_tag_message(tag: str) -> str:
    name = f"!!{tag.removeprefix(_TAG_PREFIX)}" if tag.startswith(_TAG_PREFIX) else tag
    return f"unsupported tag {name}; remove it, or put the text in quotes"


def yaml_events(text: str, loader: Loader = DEFAULT_LOADER) -> Iterator[Event]:
    """The events of a text with LF line ends.  Raises `UnreadableDocument`."""
    if (match := _UNSUPPORTED_CHAR.search(text)) is not None:
        raise UnreadableDocument(
            mark_at(text, match.start()),
            f"the character {escape_character(match[0])} is not allowed in YAML; write it as an "
            "escape in double quotes",
        )
    try:
        yield from yaml.parse(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        raise _plain_error(error, text) from None
    except yaml.YAMLError as error:
        raise UnreadableDocument(SourceMark(1, 1), f"invalid YAML: {error}") from None


def mark_at(text: str, index: int) -> SourceMark:
    """The position of a character in a text whose lines end in LF."""
    start = text.rfind("\n", 0, index) + 1
    return SourceMark(text.count("\n", 0, index) + 1, index - start + 1)


def _plain_error(error: yaml.MarkedYAMLError, text: str) -> UnreadableDocument:
    """A parser error as a plain message with its position."""
    complaint = f"{error.context or ''} {error.problem or ''}"
    opening = error.context_mark or error.problem_mark
    mark = opening if _AT_CONTEXT.search(complaint) else error.problem_mark or opening
    line, column = (0, 0) if mark is None else (mark.line, mark.column)
    message = f"invalid YAML: {complaint.strip()}"
    for pattern, template in _MESSAGE_BY_ERROR.items():
        if re.search(pattern, complaint):
            message = template.format(line=1 if opening is None else opening.line + 1)
            break
    if "cannot start any token" in complaint:
        character = text.split("\n")[line][column : column + 1]
        message = f"this text starts with {character}; put the text in quotes"
        if character == "\t":
            message = "a tab is used for indentation; use spaces"
    is_incomplete = "<document start>" in complaint
    return UnreadableDocument(
        SourceMark(line + 1, column + 1), message, discards_last_document=is_incomplete
    )


def json_events(text: str) -> Iterator[Event]:
    """The events of a JSON text, as PyYAML's parser gives them.  Raises `UnreadableDocument`."""
    reader = _JsonReader(text)
    yield DocumentStartEvent()
    yield from reader.read_value()
    reader.skip_space()
    if reader.index != len(text):
        reader.raise_unreadable(
            "unexpected text after the JSON value; put several values in a list"
        )


class _JsonReader:
    """A recursive descent parser; what it has read ends at `index`."""

    def __init__(self, text: str) -> None:
        self.index = 0
        self._text = text
        self._decoder = JSONDecoder()
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def skip_space(self) -> str:
        """Skip white space; the next character, empty at the end of the text."""
        match = _JSON_SPACE.match(self._text, self.index)
        self.index = match.end() if match else self.index
        return self._text[self.index : self.index + 1]

    def read_value(self) -> Iterator[Event]:
        """The events of a value of any type."""
        match self.skip_space():
            case "{":
                yield MappingStartEvent(None, None, implicit=True, start_mark=self._mark())
                yield from self._read_content("}")
                yield MappingEndEvent()
            case "[":
                yield SequenceStartEvent(None, None, implicit=True, start_mark=self._mark())
                yield from self._read_content("]")
                yield SequenceEndEvent()
            case '"':
                yield self._read_string()
            case _:
                found = _JSON_WORD_OR_NUMBER.match(self._text, self.index)
                if found is None:
                    self.raise_unreadable("missing value")
                if found[0][0].isidentifier() and found[0] not in _JSON_WORDS:
                    self.raise_unreadable(f"missing double quotes around {found[0]}")
                yield self._scalar(found[0], found.end(), is_quoted=False)

    def raise_unreadable(self, message: str, index: int | None = None) -> NoReturn:
        """Raise `UnreadableDocument`, with a better message for comments and for an early end."""
        index = self.index if index is None else index
        if self._text.startswith(("//", "/*", "#"), index):
            message = "JSON does not allow comments; remove the comment or rename the file to .yaml"
        elif index >= len(self._text):
            message = f"unexpected end of the file: {message}"
        raise UnreadableDocument(mark_at(self._text, index), message)

    def _read_content(self, closing: str) -> Iterator[Event]:
        """The members of an object, or the items of a list."""
        self.index += 1
        while (character := self.skip_space()) != closing:
            if closing == "}":
                if character != '"':
                    self.raise_unreadable("missing key in double quotes, or missing }")
                yield self._read_string()
                if self.skip_space() != ":":
                    self.raise_unreadable("missing colon after the key")
                self.index += 1
            yield from self.read_value()
            separator = self.skip_space()
            if separator == ",":
                comma_index = self.index
                self.index += 1
                if self.skip_space() == closing:
                    self.raise_unreadable(f"unexpected comma before {closing}", comma_index)
            elif separator != closing:
                self.raise_unreadable(f"missing comma or {closing}")
        self.index += 1

    def _read_string(self) -> ScalarEvent:
        try:
            value, end = self._decoder.raw_decode(self._text, self.index)
        except JSONDecodeError as error:
            if error.msg.startswith("Unterminated"):
                message = "missing closing quote"
            elif error.msg.startswith("Invalid control"):
                message = (
                    "unescaped control character; write \\n for a line break and \\t for a tab"
                )
            else:
                message = "unknown escape in JSON; write \\\\ for a backslash"
            self.raise_unreadable(message, error.pos)
        return self._scalar(value, end, is_quoted=True)

    def _scalar(self, value: str, end: int, *, is_quoted: bool) -> ScalarEvent:
        event = ScalarEvent(None, None, (not is_quoted, is_quoted), value, self._mark())
        self.index = end
        return event

    def _mark(self) -> Mark:
        line = bisect_right(self._line_starts, self.index) - 1
        return Mark("", self.index, line, self.index - self._line_starts[line], None, 0)
