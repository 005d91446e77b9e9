"""The results of the benchmark: rows of a value, reference values, and a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One measured value."""

    group: str
    name: str
    value: float
    unit: str
    references: dict[str, float] = field(default_factory=dict)
    """Values to compare it with, in the same unit unless the name has another."""
    target: float | None = None
    """The maximum (of `ms`, `s` and `%`), or the minimum (of all other units), that is accepted."""

    @property
    def is_ok(self) -> bool | None:
        """Whether the target is met; None if there is no target."""
        if self.target is None:
            return None
        if self.unit in {"ms", "s", "%"}:
            return self.value <= self.target
        return self.value >= self.target

    def as_json(self) -> dict[str, Any]:
        """The row as `--json` prints it."""
        return {
            "group": self.group,
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "beside": self.references,
            "target": self.target,
            "ok": self.is_ok,
        }


def quantile(values: Sequence[float], fraction: float) -> float:
    """The value below which that fraction of the values is."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(fraction * len(ordered)))]


def median_p95(values: Sequence[float], label: str = "") -> dict[str, float]:
    """Median and 95th percentile, with names that begin with the label."""
    prefix = f"{label} " if label else ""
    return {f"{prefix}median": median(values), f"{prefix}p95": quantile(values, 0.95)}


def format_table(rows: Sequence[Row]) -> str:
    """The rows as a text table."""
    lines: list[str] = []
    group = ""
    name_width = max((len(row.name) for row in rows), default=0)
    for row in rows:
        if row.group != group:
            group = row.group
            lines += ["", group]
        verdict = {None: "", True: "ok", False: "OVER"}[row.is_ok]
        target = f"target {_format_number(row.target)}" if row.target is not None else ""
        references = ", ".join(
            f"{name} {_format_number(value)}" for name, value in row.references.items()
        )
        value = f"{_format_number(row.value):>8} {row.unit:<5}"
        line = f"  {row.name:<{name_width}}  {value} {target:<12} {verdict:<5} {references}"
        lines.append(line.rstrip())
    return "\n".join(lines)


def _format_number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
