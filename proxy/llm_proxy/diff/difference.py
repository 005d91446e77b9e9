"""The differences of a comparison, and which of them are significant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

Manner = Literal["exact", "live", "shape"]
"""How strictly two exchanges are compared."""


class DifferenceKind(StrEnum):
    """What differs."""

    ASKED = "asked"
    """The request."""
    STATUS = "status"
    HEADER = "header"
    MOMENT = "moment"
    """A header that says how things stood when it was sent: limits that are left, time taken."""
    ENDING = "ending"
    SHAPE = "shape"
    """Kinds of events, and the fields that they have."""
    MODEL = "model"
    """The model that answered."""
    FINISH = "finish"
    TOOLS = "tools"
    """The names of the tools that were called, in order."""
    SAID = "said"
    """Texts, reasoning, arguments."""
    ID = "id"
    """Ids, seals and other things that are made anew for each answer."""
    USAGE = "usage"
    BYTES = "bytes"
    TIME = "time"


_NEVER: Final = frozenset((DifferenceKind.TIME, DifferenceKind.MOMENT))
_STUMBLED_OVER: Final = frozenset(
    (
        DifferenceKind.STATUS,
        DifferenceKind.ENDING,
        DifferenceKind.SHAPE,
        DifferenceKind.MODEL,
        DifferenceKind.FINISH,
        DifferenceKind.TOOLS,
    )
)
_COUNT: Final[Mapping[Manner, frozenset[DifferenceKind]]] = MappingProxyType(
    {
        "exact": frozenset(DifferenceKind) - _NEVER - {DifferenceKind.SHAPE},
        "live": _STUMBLED_OVER,
        "shape": frozenset((DifferenceKind.STATUS, DifferenceKind.SHAPE)),
    }
)
_SHOWN: Final[Mapping[Manner, frozenset[DifferenceKind]]] = MappingProxyType(
    {
        "exact": frozenset(DifferenceKind) - {DifferenceKind.SHAPE},
        "live": frozenset(DifferenceKind) - {DifferenceKind.ASKED, DifferenceKind.BYTES},
        "shape": frozenset((DifferenceKind.STATUS, DifferenceKind.SHAPE)),
    }
)
"""The bytes of two takes tell them apart, and what they say: their shape would only repeat it."""


def is_significant(kind: DifferenceKind, manner: Manner) -> bool:
    """Whether a difference of this kind makes two exchanges differ."""
    return kind in _COUNT[manner]


def is_reported(kind: DifferenceKind, manner: Manner) -> bool:
    """Whether anybody wants to see one."""
    return kind in _SHOWN[manner]


@dataclass(frozen=True, slots=True)
class ExchangeDifference:
    """One place in which two exchanges differ."""

    kind: DifferenceKind
    path: str
    """`$.messages[0].content` of a request, `turns[0].parts[1].text`, `content-type`, …"""
    one: str
    """Its value in the first; empty where that has none."""
    other: str
    """Its value in the second; empty where that has none."""
    is_significant: bool


@dataclass(frozen=True, slots=True)
class ExchangeComparison:
    """All of them, in the order of an exchange."""

    one: str
    """The file of the first."""
    other: str
    strictness: Manner
    differences: tuple[ExchangeDifference, ...]

    @property
    def is_same(self) -> bool:
        """Whether nothing that counts differs."""
        return not any(difference.is_significant for difference in self.differences)
