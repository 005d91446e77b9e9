"""What each dialect can represent, by form of response and in summary.

`PYTHONPATH=proxy:tests python tests/dialect_capabilities.py` writes the table of all forms to
`dialect_capabilities.md`, and prints the summary for `docs/reference/dialects.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
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

FORMS_FILE: Final = Path(__file__).with_suffix(".md")
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
    "signature": _signature,
    "tool calls": _preserves(ToolCall("call_1", "f", '{"a":1}')),
    "text after call": _preserves(Text("a"), ToolCall("call_1", "f", "{}"), Text("b")),
    "refusals": _preserves(Refusal("No.")),
    "provider-run tools": _preserves(_TOOL_CALL, _TOOL_RESULT, Text("Yes.")),
    "citations": _preserves_citations,
    "images": _preserves(_IMAGE),
    "choices": _accepts_choices,
}


def forms_table() -> str:
    """Return the table of all forms of responses."""
    rows = ((manner.name, *(check(manner) for check in COLUMNS.values())) for manner in MANNERS)
    return _table("form", rows)


def summary_table() -> str:
    """Return the table of all dialects; a value that depends on the form is `varies`."""
    values_by_dialect: dict[str, list[set[str]]] = {}
    for manner in MANNERS:
        sets = values_by_dialect.setdefault(_summary_label(manner), [set() for _ in COLUMNS])
        for values, check in zip(sets, COLUMNS.values(), strict=True):
            values.add(check(manner))
    rows = (
        (label, *(values.pop() if len(values) == 1 else "varies" for values in sets))
        for label, sets in values_by_dialect.items()
    )
    return _table("dialect", rows)


def _summary_label(manner: Manner) -> str:
    name = f"`{manner.dialect.name}`"
    if manner.dialect.name != "bedrock":
        return name
    return f"{name} {'Converse' if '/converse' in manner.request.path else 'invoke'}"


def _table(label: str, rows: Iterable[tuple[str, ...]]) -> str:
    lines = [(label, *COLUMNS), ("---",) * (len(COLUMNS) + 1), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    FORMS_FILE.write_text(forms_table())
    sys.stdout.write(summary_table())
