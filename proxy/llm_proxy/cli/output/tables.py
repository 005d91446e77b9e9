"""Tables: rich on a terminal, aligned plain text elsewhere.

On a terminal that is too narrow, columns are left out in the order of `drop_priority`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, NamedTuple

from llm_proxy import display
from llm_proxy.cli.output.printing import (
    Line,
    StyledText,
    is_stdout_ascii_only,
    is_stdout_terminal,
    print_lines,
    terminal_columns,
)

_COLUMN_GAP: Final = 2
"""Spaces between two columns."""


class TableColumn(NamedTuple):
    """The title, the alignment and the priority of a column."""

    title: str
    is_right_aligned: bool = False
    """Whether cells are aligned to the right, as numbers are."""
    drop_priority: int = 0
    """On a narrow terminal, the column with the largest priority is left out first; 0 never is."""


def print_table(columns: Sequence[TableColumn], rows: Sequence[Line]) -> None:
    """Print a table on stdout; each row has one `StyledText` for each column."""
    if is_stdout_terminal() and not is_stdout_ascii_only():
        kept_indexes = fitting_column_indexes(columns, rows, terminal_columns())
        _print_with_rich(
            [columns[i] for i in kept_indexes],
            [tuple(row[i] for i in kept_indexes) for row in rows],
        )
    else:
        print_lines(plain_table_lines(columns, rows))


def fitting_column_indexes(
    columns: Sequence[TableColumn], rows: Sequence[Line], width: int
) -> list[int]:
    """The indexes of the columns that fit on a terminal of `width` columns."""
    widths = _column_widths(columns, rows)
    kept_indexes = list(range(len(columns)))
    while sum(widths[i] + _COLUMN_GAP for i in kept_indexes) > width + _COLUMN_GAP:
        dropped_index = max(kept_indexes, key=lambda i: columns[i].drop_priority)
        if columns[dropped_index].drop_priority == 0:
            break
        kept_indexes.remove(dropped_index)
    return kept_indexes


def plain_table_lines(columns: Sequence[TableColumn], rows: Sequence[Line]) -> list[Line]:
    """The table as lines of aligned text, a line of titles first."""
    widths = _column_widths(columns, rows)
    titles = tuple(StyledText(head.title.upper()) for head in columns)
    return [_align_row(columns, widths, row) for row in (titles, *rows)]


def _align_row(columns: Sequence[TableColumn], widths: Sequence[int], row: Line) -> Line:
    texts = [
        display.pad_to_width(
            display.escape_line(span.text), width, align_right=head.is_right_aligned
        )
        for head, width, span in zip(columns, widths, row, strict=True)
    ]
    return (StyledText((" " * _COLUMN_GAP).join(texts).rstrip()),)


def _column_widths(columns: Sequence[TableColumn], rows: Sequence[Line]) -> list[int]:
    widths = [len(head.title) for head in columns]
    for row in rows:
        cell_widths = [display.display_width(display.escape_line(span.text)) for span in row]
        widths = [max(pair) for pair in zip(widths, cell_widths, strict=True)]
    return widths


def _print_with_rich(columns: Sequence[TableColumn], rows: Sequence[Line]) -> None:
    from rich.console import Console  # noqa: PLC0415 # only for a terminal
    from rich.table import Table  # noqa: PLC0415 # only for a terminal
    from rich.text import Text  # noqa: PLC0415 # only for a terminal

    styles = {"good": "green", "doubtful": "yellow", "bad": "red", "bar": "cyan"}
    table = Table(box=None, pad_edge=False, padding=(0, _COLUMN_GAP, 0, 0), header_style="bold")
    for head in columns:
        table.add_column(
            Text(head.title), justify="right" if head.is_right_aligned else "left", overflow="fold"
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
