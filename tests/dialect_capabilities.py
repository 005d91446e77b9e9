"""What each dialect has words for, by asking it; `python tests/dialect_capabilities.py` prints the table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Final

from dialect_manners import MANNERS, Manner
from llm_proxy.errors import NotRepresentable
from llm_proxy.turns import (
    Citation,
    Media,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
)

_IMAGE: Final = Media("image/png", base64="aGk=")
_SEALED: Final = Reasoning("Hm.", signature="c2VhbA==")
_ASKED: Final = ToolCall("call_1", "search", "{}")
_GIVEN: Final = ToolResult("call_1", "found", "search")
_CITED: Final = Text("It rains.", (Citation("https://example.com", "Weather", "rain"),))


def _keeps(*parts: Part) -> Callable[[Manner], str]:
    """Whether these parts come through as they are, in kind; others may stand between them."""

    def mark(manner: Manner) -> str:
        try:
            fits = manner.dialect.convert(manner.request, [Turn(parts)], manner.delivery)
        except NotRepresentable:
            return "refused"
        told = iter([type(part) for part in fits.turns[0].parts])
        return "yes" if all(type(part) in told for part in parts) else "no"

    return mark


def _seal(manner: Manner) -> str:
    [turn] = manner.dialect.convert(manner.request, [Turn((_SEALED,))], manner.delivery).turns
    return (
        "yes"
        if any(isinstance(part, Reasoning) and part.signature for part in turn.parts)
        else "no"
    )


def _citations(manner: Manner) -> str:
    [turn] = manner.dialect.convert(manner.request, [Turn((_CITED,))], manner.delivery).turns
    return "yes" if any(isinstance(part, Text) and part.citations for part in turn.parts) else "no"


def _choices(manner: Manner) -> str:
    try:
        manner.dialect.convert(manner.request, [Turn((Text("a"),))] * 2, manner.delivery)
    except NotRepresentable:
        return "refused"
    return "yes"


COLUMNS: Final[Mapping[str, Callable[[Manner], str]]] = {
    "reasoning": _keeps(Reasoning("Hm."), Text("Yes.")),
    "its seal": _seal,
    "tool calls": _keeps(ToolCall("call_1", "f", '{"a":1}')),
    "text after a call": _keeps(Text("a"), ToolCall("call_1", "f", "{}"), Text("b")),
    "refusals": _keeps(Refusal("No.")),
    "provider's tools": _keeps(_ASKED, _GIVEN, Text("Yes.")),
    "citations": _citations,
    "images": _keeps(_IMAGE),
    "choices": _choices,
}


def table() -> str:
    """The table as it stands in the documentation."""
    rows = [("manner", *COLUMNS), ("---",) * (len(COLUMNS) + 1)]
    rows += ((manner.name, *(mark(manner) for mark in COLUMNS.values())) for manner in MANNERS)
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    sys.stdout.write(table())
