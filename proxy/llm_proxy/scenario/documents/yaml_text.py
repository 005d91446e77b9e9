"""Parses YAML into events, with plain messages for the errors of PyYAML's parsers.

The parsers in C and in Python word the same errors differently; the patterns match both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml
from yaml.events import Event

from llm_proxy.errors import escape_character
from llm_proxy.yaml_composer import DEFAULT_LOADER, Loader, SourceMark, UnreadableDocument

_UNSUPPORTED_CHAR: Final = re.compile(
    r"[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
"""Characters that YAML forbids, and line ends of YAML 1.1 that its parsers still recognise."""

_AT_PROBLEM, _AT_CONTEXT = "here", "opening"
"""The position of a message: where the parser failed, or where the construct began."""

_MESSAGE_TEMPLATES: Final = tuple(
    (re.compile(pattern), place, sentence)
    for pattern, place, sentence in (
        (r"mapping values are not allowed", _AT_PROBLEM,
         "a colon cannot stand here: put text that holds one in quotes, and check the indentation"),
        (r"cannot start any token.*", _AT_PROBLEM, "{character}"),
        (r"expected ',' or '\]'", _AT_PROBLEM,
         "a comma or a ] is missing in the list whose [ is in line {line}"),
        (r"expected ',' or '\}'", _AT_PROBLEM,
         "a comma or a }} is missing in the object whose {{ is in line {line}"),
        (r"expected (the )?node content", _AT_PROBLEM,
         "a value, a ] or a }} is missing here, or a comma is one too many"),
        (r"unexpected end of stream", _AT_CONTEXT, "the quotes that open here are not closed"),
        (r"unexpected document separator", _AT_CONTEXT, "the quotes that open here are not closed"),
        (r"block collection.*(expected '-' indicator|but found)", _AT_PROBLEM,
         ("this line does not belong to the list that begins in line {line}: indent it as the "
         "others, each item after - and a space")),
        (r"block mapping.*(expected key|but found)", _AT_PROBLEM,
         ("this does not belong to the object that begins in line {line}: check the indentation, "
         "and put text in quotes of the other kind where it holds quotes")),
        (r"unknown escape character", _AT_PROBLEM,
         "double quotes know no such escape: write \\\\ for a backslash, or use single quotes"),
        (r"invalid Unicode character|expected escape sequence", _AT_PROBLEM,
         "this escape is no whole character: write the character itself, or \\U and eight digits"),
        (r"could not find expected ':'", _AT_CONTEXT,
         ("a colon and a space are missing after the name that begins here, or the text above is "
         "not indented")),
        (r"sequence entries are not allowed", _AT_PROBLEM,
         "a list cannot begin in the line of its name: put each - on a line of its own"),
        (r"incompatible YAML document", _AT_PROBLEM, "only YAML 1.1 and 1.2 can be read"),
        (r"undefined tag handle", _AT_PROBLEM, "text that begins with ! must be in quotes"),
        (r"expected '?<document start>", _AT_PROBLEM,
         ("this does not belong to what stands above: let all names of an object begin in one "
         "column")),
        (r"comment or( a)? line break", _AT_PROBLEM,
         "after | or > nothing may stand in the line: begin the text in the next one"),
    )
)  # fmt: skip


def yaml_events(text: str, loader: Loader = DEFAULT_LOADER) -> Iterator[Event]:
    """The events of a text with LF line ends.  Raises `UnreadableDocument`."""
    if (match := _UNSUPPORTED_CHAR.search(text)) is not None:
        raise UnreadableDocument(
            mark_at(text, match.start()),
            f"the character {escape_character(match[0])} cannot stand in YAML as it is: write it "
            "as an escape, in double quotes",
        )
    try:
        yield from yaml.parse(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        raise _plain_error(error, text) from None
    except yaml.YAMLError as error:
        raise UnreadableDocument(SourceMark(1, 1), f"this is no valid YAML: {error}") from None


def mark_at(text: str, index: int) -> SourceMark:
    """The position of a character in a text whose lines end in LF."""
    start = text.rfind("\n", 0, index) + 1
    return SourceMark(text.count("\n", 0, index) + 1, index - start + 1)


def _plain_error(error: yaml.MarkedYAMLError, text: str) -> UnreadableDocument:
    """A parser error as a plain message with its position."""
    complaint = f"{error.context or ''} {error.problem or ''}"
    context_mark = error.context_mark or error.problem_mark
    for pattern, place, template in _MESSAGE_TEMPLATES:
        if pattern.search(complaint):
            mark = context_mark if place == _AT_CONTEXT else error.problem_mark or context_mark
            message = template.format(
                line=1 if context_mark is None else context_mark.line + 1,
                character=_first_character_message(text, mark),
            )
            return UnreadableDocument(
                _to_source_mark(mark),
                message,
                discards_last_document="<document start>" in complaint,
            )
    return UnreadableDocument(
        _to_source_mark(error.problem_mark or context_mark),
        f"this is no valid YAML: {complaint.strip()}",
    )


def _first_character_message(text: str, mark: Any) -> str:
    lines = text.split("\n")
    line = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
    character = line[mark.column : mark.column + 1] if line else ""
    if character == "\t":
        return "a tab cannot indent: use spaces"
    return f"text cannot begin with {character}: put it in quotes"


def _to_source_mark(mark: Any) -> SourceMark:
    return SourceMark(1, 1) if mark is None else SourceMark(mark.line + 1, mark.column + 1)
