"""The page of all faults, made of what each says of itself, and of what was measured.

PYTHONPATH=proxy:tests python tests/fault_page.py > docs/faults.md

The frame is written by hand: tests/fault_frame.md, with a mark where something is put in.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import fault_table
from llm_proxy.faults.grammar.locations import PLACES
from llm_proxy.faults.kind import BODIES, STREAMS, FaultKind
from llm_proxy.faults.kinds import KINDS

FRAME: Final = Path(__file__).with_name("fault_frame.md")
PAGE: Final = Path(__file__).parents[1] / "docs" / "faults.md"

_FRAMINGS: Final[Mapping[str, str]] = {
    "sse": "SSE",
    "ndjson": "NDJSON",
    "eventstream": "AWS event streams",
    "json-array": "arrays of JSON",
    "whole": "whole bodies",
}
_MARK: Final = re.compile(r"<!-- faults: (\w+) -->")


def page() -> str:
    """All of it."""
    parts = {
        "count": str(len(KINDS)),
        "index": "\n".join(_index()),
        "sections": "\n\n".join(map(_section, _sorted())),
        "sdks": fault_table.tables().strip(),
    }
    return _MARK.sub(lambda mark: parts[mark[1]], FRAME.read_text("utf-8"))


def _sorted() -> list[FaultKind]:
    return [KINDS[name] for name in sorted(KINDS)]


def _index() -> Iterator[str]:
    yield "| fault | what goes wrong | to the client it is | in |"
    yield "|---|---|---|---|"
    for kind in _sorted():
        cells = (f"[`{kind.name}`](#{kind.name})", kind.description, kind.effect, _bodies(kind))
        yield f"| {' | '.join(cells)} |"


def _bodies(kind: FaultKind) -> str:
    """The bodies that it has a meaning in, in a few words."""
    if kind.scope == "listener":
        return "every connection"
    how = {"length": " of a declared length", "chunked": " in chunks"}
    http = "".join(word for name, word in how.items() if kind.needs_messages == {name})
    if kind.allowed_bodies == BODIES:
        return f"bodies{http}" if http else "every answer"
    if kind.allowed_bodies == STREAMS:
        return f"streams{http}"
    missing = BODIES - kind.allowed_bodies
    if len(missing) == 1:
        return f"every answer but {_FRAMINGS[next(iter(missing))]}"
    return (
        ", ".join(_FRAMINGS[framing] for framing in _FRAMINGS if framing in kind.allowed_bodies)
        + http
    )


def _section(kind: FaultKind) -> str:
    """What a fault says of itself."""
    told, *paragraphs = _docstring(kind).split("\n\n")
    name, _, meaning = told.partition(": ")
    assert name == f"`{kind.name}`", kind
    parts = [f"### {kind.name}", meaning[:1].upper() + meaning[1:]]
    parts += [_paragraph(paragraph) for paragraph in paragraphs]
    parts += filter(None, (_arguments(kind), _places(kind), f"Example: `{kind.example}`"))
    return "\n\n".join(parts)


def _docstring(kind: FaultKind) -> str:
    """What stands above the code of a fault."""
    return (sys.modules[kind.make_fault.__module__].__doc__ or "").strip()


def _paragraph(text: str) -> str:
    """A picture as it is drawn; words in one line."""
    if text.startswith("    "):
        return f"```\n{textwrap.dedent(text).rstrip()}\n```"
    return re.sub(r"\s+", " ", text).strip()


def _arguments(kind: FaultKind) -> str:
    if not kind.arguments:
        return ""
    rows = ["| argument | what it says | default |", "|---|---|---|"]
    for name, it in kind.arguments.items():
        default = "needed" if it.is_required else f"`{it.default}`" if it.default else ""
        rows.append(f"| `{name}` | {it.description} | {default} |")
    return "\n".join(rows)


def _places(kind: FaultKind) -> str:
    """Where it may strike, and what it befalls where that is not one answer."""
    match kind.scope:
        case "listener":
            return "It has no place, no occasion and no audience."
        case "rule":
            return "It has no place, and no occasions but its own."
        case "request":
            words = [f"`{place}=`" for place in PLACES if place in kind.allowed_locations]
            where = f"Placed by {', '.join(words)}." if words else "It has no place to choose."
            return f"{where} Has a meaning in {_bodies(kind)}."


if __name__ == "__main__":
    sys.stdout.write(page())
