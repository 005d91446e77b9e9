"""The differences of a comparison, and which of them are significant or reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

Strictness = Literal["exact", "live", "shape"]
"""How strictly two exchanges are compared: see `diff.exchanges`."""


class DifferenceKind(StrEnum):
    """The kind of value that differs."""

    REQUEST = "asked"
    """The request."""
    STATUS = "status"
    HEADER = "header"
    VOLATILE_HEADER = "moment"
    """A header whose value changes with time, such as remaining limits or time taken."""
    ENDING = "ending"
    SHAPE = "shape"
    """Event types, and the fields of each."""
    MODEL = "model"
    """The model of the response."""
    FINISH = "finish"
    TOOLS = "tools"
    """The names of the tools that were called, in order."""
    CONTENT = "said"
    """Text, reasoning and arguments in the response."""
    ID = "id"
    """Ids, signatures and other values that are new in each response."""
    USAGE = "usage"
    BYTES = "bytes"
    TIME = "time"


_INSIGNIFICANT_KINDS: Final = frozenset((DifferenceKind.TIME, DifferenceKind.VOLATILE_HEADER))
_BREAKING_KINDS: Final = frozenset(
    (
        DifferenceKind.STATUS,
        DifferenceKind.ENDING,
        DifferenceKind.SHAPE,
        DifferenceKind.MODEL,
        DifferenceKind.FINISH,
        DifferenceKind.TOOLS,
    )
)
_SIGNIFICANT_KINDS: Final[Mapping[Strictness, frozenset[DifferenceKind]]] = MappingProxyType(
    {
        "exact": frozenset(DifferenceKind) - _INSIGNIFICANT_KINDS - {DifferenceKind.SHAPE},
        "live": _BREAKING_KINDS,
        "shape": frozenset((DifferenceKind.STATUS, DifferenceKind.SHAPE)),
    }
)
_REPORTED_KINDS: Final[Mapping[Strictness, frozenset[DifferenceKind]]] = MappingProxyType(
    {
        "exact": frozenset(DifferenceKind) - {DifferenceKind.SHAPE},
        "live": frozenset(DifferenceKind) - {DifferenceKind.REQUEST, DifferenceKind.BYTES},
        "shape": frozenset((DifferenceKind.STATUS, DifferenceKind.SHAPE)),
    }
)
"""An exact comparison omits the shape, which would only repeat the differences of bytes and
contents."""


def is_significant(kind: DifferenceKind, strictness: Strictness) -> bool:
    """Whether a difference of this kind makes two exchanges count as different."""
    return kind in _SIGNIFICANT_KINDS[strictness]


def is_reported(kind: DifferenceKind, strictness: Strictness) -> bool:
    """Whether a difference of this kind is included in the comparison."""
    return kind in _REPORTED_KINDS[strictness]


@dataclass(frozen=True, slots=True)
class ExchangeDifference:
    """One value in which two exchanges differ."""

    kind: DifferenceKind
    path: str
    """Such as `$.messages[0].content` of a request, `turns[0].parts[1].text`, `content-type`."""
    first_value: str
    """The value in the first exchange; empty where it has none."""
    second_value: str
    """The value in the second exchange; empty where it has none."""
    is_significant: bool


@dataclass(frozen=True, slots=True)
class ExchangeComparison:
    """The differences of two exchanges, in the order of an exchange: request first, times last."""

    first_file: str
    """The file of the first cassette."""
    second_file: str
    strictness: Strictness
    differences: tuple[ExchangeDifference, ...]

    @property
    def is_same(self) -> bool:
        """Whether there is no significant difference."""
        return not any(difference.is_significant for difference in self.differences)
