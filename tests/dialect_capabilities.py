"""What each dialect can represent; `python tests/dialect_capabilities.py` prints the table."""

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
_SIGNED_REASONING: Final = Reasoning("Hm.", signature="c2VhbA==")
_TOOL_CALL: Final = ToolCall("call_1", "search", "{}")
_TOOL_RESULT: Final = ToolResult("call_1", "found", "search")
_CITED_TEXT: Final = Text("It rains.", (Citation("https://example.com", "Weather", "rain"),))


def _preserves(*parts: Part) -> Callable[[Manner], str]:
    """Check that conversion keeps the types of these parts in order; others may be in between."""

    def check(manner: Manner) -> str:
        try:
            converted = manner.dialect.representable_turns(
                manner.request, [Turn(parts)], manner.context
            )
        except NotRepresentable:
            return "refused"
        converted_kinds = iter([type(part) for part in converted.turns[0].parts])
        return "yes" if all(type(part) in converted_kinds for part in parts) else "no"

    return check


def _signature(manner: Manner) -> str:
    [turn] = manner.dialect.representable_turns(
        manner.request, [Turn((_SIGNED_REASONING,))], manner.context
    ).turns
    return (
        "yes"
        if any(isinstance(part, Reasoning) and part.signature for part in turn.parts)
        else "no"
    )


def _preserves_citations(manner: Manner) -> str:
    [turn] = manner.dialect.representable_turns(
        manner.request, [Turn((_CITED_TEXT,))], manner.context
    ).turns
    return "yes" if any(isinstance(part, Text) and part.citations for part in turn.parts) else "no"


def _accepts_choices(manner: Manner) -> str:
    try:
        manner.dialect.representable_turns(manner.request, [Turn((Text("a"),))] * 2, manner.context)
    except NotRepresentable:
        return "refused"
    return "yes"


COLUMNS: Final[Mapping[str, Callable[[Manner], str]]] = {
    "reasoning": _preserves(Reasoning("Hm."), Text("Yes.")),
    "its seal": _signature,
    "tool calls": _preserves(ToolCall("call_1", "f", '{"a":1}')),
    "text after a call": _preserves(Text("a"), ToolCall("call_1", "f", "{}"), Text("b")),
    "refusals": _preserves(Refusal("No.")),
    "provider's tools": _preserves(_TOOL_CALL, _TOOL_RESULT, Text("Yes.")),
    "citations": _preserves_citations,
    "images": _preserves(_IMAGE),
    "choices": _accepts_choices,
}


def capability_table() -> str:
    """Return the table as it is in the documentation."""
    rows = [("manner", *COLUMNS), ("---",) * (len(COLUMNS) + 1)]
    rows += ((manner.name, *(check(manner) for check in COLUMNS.values())) for manner in MANNERS)
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    sys.stdout.write(capability_table())
