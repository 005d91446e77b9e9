"""What was measured: rows of a value, what it is compared with, and a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One figure."""

    group: str
    name: str
    value: float
    unit: str
    beside: dict[str, float] = field(default_factory=dict)
    """What it is to be seen beside, in the same unit unless the name says another."""
    target: float | None = None
    """The most (of `ms`, `s` and `%`), or the least (of everything else), that is good enough."""

    @property
    def ok(self) -> bool | None:
        """Whether the target is met; None where there is none."""
        if self.target is None:
            return None
        if self.unit in {"ms", "s", "%"}:
            return self.value <= self.target
        return self.value >= self.target

    def as_json(self) -> dict[str, Any]:
        """The row as `--json` prints it."""
        return asdict(self) | {"ok": self.ok}


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which that share of the values lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median_p95(values: Sequence[float], of: str = "") -> dict[str, float]:
    """Median and 95th percentile, named after what they are of."""
    prefix = f"{of} " if of else ""
    return {f"{prefix}median": median(values), f"{prefix}p95": quantile(values, 0.95)}


def text(rows: Sequence[Row]) -> str:
    """The rows as a table for people."""
    lines: list[str] = []
    group = ""
    width = max((len(row.name) for row in rows), default=0)
    for row in rows:
        if row.group != group:
            group = row.group
            lines += ["", group]
        verdict = {None: "", True: "ok", False: "OVER"}[row.ok]
        target = f"target {_number(row.target)}" if row.target is not None else ""
        beside = ", ".join(f"{name} {_number(value)}" for name, value in row.beside.items())
        figure = f"{_number(row.value):>8} {row.unit:<5}"
        lines.append(f"  {row.name:<{width}}  {figure} {target:<12} {verdict:<5} {beside}".rstrip())
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
