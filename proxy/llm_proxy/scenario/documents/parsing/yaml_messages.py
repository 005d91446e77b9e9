"""Rewords PyYAML's parser errors.

The one in C and the one in Python say the same in different words; both are known here.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

from llm_proxy.errors import escape_character
from llm_proxy.scenario.documents.parsing.nodes import SourceMark, UnreadableDocument

_HERE, _OPENING = "here", "opening"
"""Where a complaint is placed: where the parser gave up, or where what it was reading began."""

_SENTENCES: Final = tuple(
    (re.compile(pattern), place, sentence)
    for pattern, place, sentence in (
        (r"mapping values are not allowed", _HERE,
         "a colon cannot stand here: put text that holds one in quotes, and check the indentation"),
        (r"cannot start any token.*", _HERE, "{character}"),
        (r"expected ',' or '\]'", _HERE,
         "a comma or a ] is missing in the list whose [ is in line {line}"),
        (r"expected ',' or '\}'", _HERE,
         "a comma or a }} is missing in the object whose {{ is in line {line}"),
        (r"expected (the )?node content", _HERE,
         "a value, a ] or a }} is missing here, or a comma is one too many"),
        (r"unexpected end of stream", _OPENING, "the quotes that open here are not closed"),
        (r"unexpected document separator", _OPENING, "the quotes that open here are not closed"),
        (r"block collection.*(expected '-' indicator|but found)", _HERE,
         ("this line does not belong to the list that begins in line {line}: indent it as the "
         "others, each item after - and a space")),
        (r"block mapping.*(expected key|but found)", _HERE,
         ("this does not belong to the object that begins in line {line}: check the indentation, "
         "and put text in quotes of the other kind where it holds quotes")),
        (r"unknown escape character", _HERE,
         "double quotes know no such escape: write \\\\ for a backslash, or use single quotes"),
        (r"invalid Unicode character|expected escape sequence", _HERE,
         "this escape is no whole character: write the character itself, or \\U and eight digits"),
        (r"could not find expected ':'", _OPENING,
         ("a colon and a space are missing after the name that begins here, or the text above is "
         "not indented")),
        (r"sequence entries are not allowed", _HERE,
         "a list cannot begin in the line of its name: put each - on a line of its own"),
        (r"incompatible YAML document", _HERE, "only YAML 1.1 and 1.2 can be read"),
        (r"undefined tag handle", _HERE, "text that begins with ! must be in quotes"),
        (r"expected '?<document start>", _HERE,
         ("this does not belong to what stands above: let all names of an object begin in one "
         "column")),
        (r"comment or( a)? line break", _HERE,
         "after | or > nothing may stand in the line: begin the text in the next one"),
    )
)  # fmt: skip


def parser_error(error: yaml.MarkedYAMLError, text: str) -> UnreadableDocument:
    """The complaint of a parser, with its place."""
    content = f"{error.context or ''} {error.problem or ''}"
    opening = error.context_mark or error.problem_mark
    for pattern, place, sentence in _SENTENCES:
        if pattern.search(content):
            at = opening if place == _OPENING else error.problem_mark or opening
            line = opening.line + 1 if opening is not None else 1
            message = sentence.format(line=line, character=_first(_character(text, at)))
            return UnreadableDocument(_mark(at), message, cuts="<document start>" in content)
    return UnreadableDocument(
        _mark(error.problem_mark or opening), f"this is no valid YAML: {content.strip()}"
    )


def invalid_character_message(character: str) -> str:
    """What is said of a character that YAML has no place for."""
    return (
        f"the character {escape_character(character)} cannot stand in YAML as it is: write it as "
        "an escape, in double quotes"
    )


def _first(character: str) -> str:
    if character == "\t":
        return "a tab cannot indent: use spaces"
    return f"text cannot begin with {character}: put it in quotes"


def _character(text: str, at: Any) -> str:
    lines = text.split("\n")
    line = lines[at.line] if at is not None and at.line < len(lines) else ""
    return line[at.column : at.column + 1] if line else ""


def _mark(at: Any) -> SourceMark:
    return SourceMark(1, 1) if at is None else SourceMark(at.line + 1, at.column + 1)
