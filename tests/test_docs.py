"""README.md, docs/ and the other pages: links lead somewhere, and table cells are short."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

from case_tables import each_row

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "cassettes/**/*.md")
    for path in ROOT.glob(pattern)
)
_FENCED_CODE: Final = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_CODE: Final = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_MAX_CELL_WORDS: Final = 25
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")


def broken_links(page: Path) -> list[str]:
    """Return the relative links of a page whose file or heading does not exist."""
    broken = []
    for link in _LINK.findall(_CODE.sub("", page.read_text("utf-8"))):
        if re.match("[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


def long_cells(text: str) -> list[str]:
    """Return the table cells that have more than 25 words."""
    rows = (line for line in _FENCED_CODE.sub("", text).splitlines() if line.startswith("|"))
    cells = (cell.strip() for row in rows for cell in re.split(r"(?<!\\)\|", row))
    return [cell for cell in cells if len(cell.split()) > _MAX_CELL_WORDS]


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, as code hosts make them."""
    text = _FENCED_CODE.sub("", page.read_text("utf-8"))
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        number = 0
        while (unique := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(unique)
    return frozenset(found)


@each_row("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    assert broken_links(ROOT / page) == []


@each_row("page", PAGES)
def test_no_table_cell_is_longer_than_25_words(page: str) -> None:
    assert long_cells((ROOT / page).read_text("utf-8")) == []


def test_a_long_table_cell_is_found() -> None:
    assert long_cells(f"| a \\| b | {'word ' * 26}|\n") == [f"{'word ' * 26}".strip()]


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b` c\n[x](#a-b-c) [y](#other) [z](none.md) `[v](code.md)` [w](page.md)\n")

    assert broken_links(page) == ["#other", "none.md"]
