"""The page of all faults, made of their docstrings and of what was measured.

PYTHONPATH=proxy:tests .venv/bin/python tests/fault_page.py > docs/reference/faults.md

The frame is written by hand: tests/fault_frame.md, with placeholders for the generated parts.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import fault_table
from llm_proxy.faults.grammar import LOCATION_PARSERS
from llm_proxy.faults.kind import ALL_CODECS, STREAM_CODECS, FaultKind
from llm_proxy.faults.kinds import FAULT_KINDS

FRAME: Final = Path(__file__).with_name("fault_frame.md")
PAGE: Final = Path(__file__).parents[1] / "docs" / "reference" / "faults.md"

_FRAMINGS: Final[Mapping[str, str]] = {
    "sse": "SSE",
    "ndjson": "NDJSON",
    "eventstream": "AWS event streams",
    "json-array": "arrays of JSON",
    "whole": "whole bodies",
}
_PLACEHOLDER: Final = re.compile(r"<!-- faults: (\w+) -->")


def render_page() -> str:
    """The whole page as Markdown."""
    parts = {
        "count": str(len(FAULT_KINDS)),
        "index": "\n".join(_index_rows()),
        "sections": "\n\n".join(map(_section, _sorted_kinds())),
        "sdks": fault_table.render_tables().strip(),
    }
    return _PLACEHOLDER.sub(lambda match: parts[match[1]], FRAME.read_text("utf-8"))


def _sorted_kinds() -> list[FaultKind]:
    return [FAULT_KINDS[name] for name in sorted(FAULT_KINDS)]


def _index_rows() -> Iterator[str]:
    yield "| fault | what goes wrong | to the client it is | in |"
    yield "|---|---|---|---|"
    for kind in _sorted_kinds():
        cells = (f"[`{kind.name}`](#{kind.name})", kind.description, kind.effect, _bodies(kind))
        yield f"| {' | '.join(cells)} |"


def _bodies(kind: FaultKind) -> str:
    """A phrase for the bodies that a fault applies to."""
    if kind.scope == "listener":
        return "every connection"
    suffixes = {"length": " of a declared length", "chunked": " in chunks"}
    suffix = "".join(text for name, text in suffixes.items() if kind.allowed_framings == {name})
    if kind.allowed_codecs == ALL_CODECS:
        return f"bodies{suffix}" if suffix else "every answer"
    if kind.allowed_codecs == STREAM_CODECS:
        return f"streams{suffix}"
    missing = ALL_CODECS - kind.allowed_codecs
    if len(missing) == 1:
        return f"every answer but {_FRAMINGS[next(iter(missing))]}"
    return (
        ", ".join(_FRAMINGS[framing] for framing in _FRAMINGS if framing in kind.allowed_codecs)
        + suffix
    )


def _section(kind: FaultKind) -> str:
    """The section of one fault, made of its docstring."""
    summary, *paragraphs = _docstring(kind).split("\n\n")
    name, _, meaning = summary.partition(": ")
    assert name == f"`{kind.name}`", kind
    parts = [f"### {kind.name}", meaning[:1].upper() + meaning[1:]]
    parts += [_paragraph(paragraph) for paragraph in paragraphs]
    parts += filter(None, (_arguments(kind), _locations_text(kind), f"Example: `{kind.example}`"))
    return "\n\n".join(parts)


def _docstring(kind: FaultKind) -> str:
    """The docstring of the module that implements a fault."""
    return (sys.modules[kind.make_mechanism.__module__].__doc__ or "").strip()


def _paragraph(text: str) -> str:
    """An indented paragraph as a code block, any other on one line."""
    if text.startswith("    "):
        return f"```\n{textwrap.dedent(text).rstrip()}\n```"
    return re.sub(r"\s+", " ", text).strip()


def _arguments(kind: FaultKind) -> str:
    if not kind.arguments:
        return ""
    rows = ["| argument | what it says | default |", "|---|---|---|"]
    for name, argument in kind.arguments.items():
        default = (
            "needed"
            if argument.is_required
            else f"`{argument.default}`"
            if argument.default
            else ""
        )
        rows.append(f"| `{name}` | {argument.description} | {default} |")
    return "\n".join(rows)


def _locations_text(kind: FaultKind) -> str:
    """Which locations it allows, and its scope where that is not one request."""
    match kind.scope:
        case "listener":
            return "It has no place, no occasion and no audience."
        case "rule":
            return "It has no place, and no occasions but its own."
        case "request":
            names = [
                f"`{location}=`"
                for location in LOCATION_PARSERS
                if location in kind.allowed_locations
            ]
            placement = f"Placed by {', '.join(names)}." if names else "It has no place to choose."
            return f"{placement} Has a meaning in {_bodies(kind)}."


if __name__ == "__main__":
    sys.stdout.write(render_page())
