"""The page of all faults, made of their docstrings.

PYTHONPATH=proxy:tests .venv/bin/python tests/fault_page.py > docs/reference/faults.md

The frame is written by hand: tests/fault_frame.md, with placeholders for the generated parts.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from llm_proxy.faults.grammar import LOCATION_PARSERS
from llm_proxy.faults.kind import ALL_LOCATIONS, FaultEffect, FaultKind
from llm_proxy.faults.kinds import FAULT_KINDS

FRAME: Final = Path(__file__).with_name("fault_frame.md")
PAGE: Final = Path(__file__).parents[1] / "docs" / "reference" / "faults.md"

_PLACEHOLDER: Final = re.compile(r"<!-- faults: (\w+) -->")


def render_page() -> str:
    """The whole page as Markdown."""
    parts = {
        "index": "\n".join(_index_rows()),
        "locations": "\n".join(_location_items()),
        **{effect.value: _fault_names(effect) for effect in FaultEffect},
        "sections": "\n\n".join(map(_section, _sorted_kinds())),
    }
    return _PLACEHOLDER.sub(lambda match: parts[match[1]], FRAME.read_text("utf-8"))


def _sorted_kinds() -> list[FaultKind]:
    return [FAULT_KINDS[name] for name in sorted(FAULT_KINDS)]


def _index_rows() -> Iterator[str]:
    yield "| fault | what goes wrong |"
    yield "|---|---|"
    for kind in _sorted_kinds():
        yield f"| [`{kind.name}`](#{kind.name}) | {kind.description} |"


def _fault_names(effect: FaultEffect) -> str:
    return ", ".join(f"`{kind.name}`" for kind in _sorted_kinds() if kind.effect is effect)


def _location_items() -> Iterator[str]:
    """The faults by the terms that can set their location."""
    names_by_terms: defaultdict[str, list[str]] = defaultdict(list)
    for kind in _sorted_kinds():
        terms = ", ".join(
            f"`{name}=`" for name in LOCATION_PARSERS if name in kind.allowed_locations
        )
        if kind.allowed_locations == ALL_LOCATIONS:
            terms = "all locations"
        names_by_terms[terms].append(f"`{kind.name}`")
    for terms, names in sorted(names_by_terms.items()):
        if terms:
            yield f"- {terms}: {', '.join(names)}"


def _section(kind: FaultKind) -> str:
    """The section of one fault, made of its docstring."""
    summary, picture, *paragraphs = _docstring(kind).split("\n\n")
    name, _, meaning = summary.partition(": ")
    assert name == f"`{kind.name}`", kind
    parts = [
        f"### {kind.name}",
        _single_line(meaning[:1].upper() + meaning[1:]),
        f"```\n{kind.example}\n\n{textwrap.dedent(picture).rstrip()}\n```",
        *map(_single_line, paragraphs),
    ]
    if kind.arguments:
        parts.append("\n".join(_argument_items(kind)))
    return "\n\n".join(parts)


def _docstring(kind: FaultKind) -> str:
    """The docstring of the module that implements a fault."""
    return (sys.modules[kind.make_mechanism.__module__].__doc__ or "").strip()


def _single_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _argument_items(kind: FaultKind) -> Iterator[str]:
    for name, argument in kind.arguments.items():
        has_short_default = argument.default and " " not in argument.default
        suffix = f"; default: `{argument.default}`" if has_short_default else ""
        suffix += " (required)" if argument.is_required else ""
        yield f"- `{name}=`: {argument.description}{suffix}"


if __name__ == "__main__":
    sys.stdout.write(render_page())
