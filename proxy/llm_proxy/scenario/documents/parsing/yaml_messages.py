"""Rewords PyYAML's parser errors.

The parsers in C and in Python word the same errors differently; the patterns match both.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

from llm_proxy.errors import escape_character
from llm_proxy.scenario.documents.parsing.nodes import SourceMark, UnreadableDocument

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


def convert_parser_error(error: yaml.MarkedYAMLError, text: str) -> UnreadableDocument:
    """Convert a parser error to a plain message with its position."""
    complaint = f"{error.context or ''} {error.problem or ''}"
    context_mark = error.context_mark or error.problem_mark
    for pattern, place, template in _MESSAGE_TEMPLATES:
        if pattern.search(complaint):
            mark = context_mark if place == _AT_CONTEXT else error.problem_mark or context_mark
            line = context_mark.line + 1 if context_mark is not None else 1
            message = template.format(
                line=line, character=_first_character_message(_character_at(text, mark))
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


def invalid_character_message(character: str) -> str:
    """The message for a character that YAML does not allow unescaped."""
    return (
        f"the character {escape_character(character)} cannot stand in YAML as it is: write it as "
        "an escape, in double quotes"
    )


def _first_character_message(character: str) -> str:
    if character == "\t":
        return "a tab cannot indent: use spaces"
    return f"text cannot begin with {character}: put it in quotes"


def _character_at(text: str, mark: Any) -> str:
    lines = text.split("\n")
    line = lines[mark.line] if mark is not None and mark.line < len(lines) else ""
    return line[mark.column : mark.column + 1] if line else ""


def _to_source_mark(mark: Any) -> SourceMark:
    return SourceMark(1, 1) if mark is None else SourceMark(mark.line + 1, mark.column + 1)
