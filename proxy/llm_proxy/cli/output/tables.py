"""Tables: rich on a terminal, aligned plain text elsewhere.

Where a terminal is too narrow, columns that can be spared are left out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, NamedTuple

from llm_proxy import display
from llm_proxy.cli.output.printing import (
    Line,
    StyledText,
    is_ascii,
    is_terminal,
    print_lines,
    terminal_columns,
)

_GAP: Final = 2
"""Spaces between two columns."""


class TableColumn(NamedTuple):
    """How a column looks."""

    title: str
    right: bool = False
    """Whether it is aligned to the right, as figures are."""
    spare: int = 0
    """On a narrow terminal the column with the largest is left out first; 0 always stays."""


def print_table(heads: Sequence[TableColumn], rows: Sequence[Line]) -> None:
    """Print a table on stdout; each row has one span for each column."""
    if is_terminal() and not is_ascii():
        kept = columns_that_fit(heads, rows, terminal_columns())
        _print_with_rich([heads[i] for i in kept], [tuple(row[i] for i in kept) for row in rows])
    else:
        print_lines(plain_table(heads, rows))


def columns_that_fit(heads: Sequence[TableColumn], rows: Sequence[Line], width: int) -> list[int]:
    """Which columns are shown on a terminal of this width, by their numbers."""
    widths = _column_widths(heads, rows)
    kept = list(range(len(heads)))
    while sum(widths[i] + _GAP for i in kept) > width + _GAP:
        spared = max(kept, key=lambda i: heads[i].spare)
        if heads[spared].spare == 0:
            break
        kept.remove(spared)
    return kept


def plain_table(heads: Sequence[TableColumn], rows: Sequence[Line]) -> list[Line]:
    """The table as lines of aligned text."""
    widths = _column_widths(heads, rows)
    titles = tuple(StyledText(head.title.upper()) for head in heads)
    return [_align_row(heads, widths, row) for row in (titles, *rows)]


def _align_row(heads: Sequence[TableColumn], widths: Sequence[int], row: Line) -> Line:
    texts = [
        display.pad(display.escape_line(span.text), width, right=head.right)
        for head, width, span in zip(heads, widths, row, strict=True)
    ]
    return (StyledText((" " * _GAP).join(texts).rstrip()),)


def _column_widths(heads: Sequence[TableColumn], rows: Sequence[Line]) -> list[int]:
    widths = [len(head.title) for head in heads]
    for row in rows:
        taken = [display.terminal_width(display.escape_line(span.text)) for span in row]
        widths = [max(pair) for pair in zip(widths, taken, strict=True)]
    return widths


def _print_with_rich(heads: Sequence[TableColumn], rows: Sequence[Line]) -> None:
    from rich.console import Console  # noqa: PLC0415 # only for a terminal
    from rich.table import Table  # noqa: PLC0415 # only for a terminal
    from rich.text import Text  # noqa: PLC0415 # only for a terminal

    styles = {"good": "green", "doubtful": "yellow", "bad": "red", "bar": "cyan"}
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for head in heads:
        table.add_column(
            Text(head.title), justify="right" if head.right else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(
            *(
                Text(
                    display.escape_line(styled_text.text),
                    styles.get(styled_text.style, styled_text.style),
                )
                for styled_text in row
            )
        )
    if os.environ.get("NO_COLOR"):
        console = Console(color_system=None, highlight=False)
    else:
        console = Console(highlight=False)
    console.print(table)
