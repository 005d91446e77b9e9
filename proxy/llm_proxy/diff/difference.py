"""What a comparison found, and what of it counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal

Manner = Literal["exact", "live", "shape"]
"""How strictly two exchanges are compared."""


class Kind(StrEnum):
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


_NEVER: Final = frozenset((Kind.TIME, Kind.MOMENT))
_STUMBLED_OVER: Final = frozenset(
    (Kind.STATUS, Kind.ENDING, Kind.SHAPE, Kind.MODEL, Kind.FINISH, Kind.TOOLS)
)
_COUNT: Final[Mapping[Manner, frozenset[Kind]]] = MappingProxyType(
    {
        "exact": frozenset(Kind) - _NEVER - {Kind.SHAPE},
        "live": _STUMBLED_OVER,
        "shape": frozenset((Kind.STATUS, Kind.SHAPE)),
    }
)
_SHOWN: Final[Mapping[Manner, frozenset[Kind]]] = MappingProxyType(
    {
        "exact": frozenset(Kind) - {Kind.SHAPE},
        "live": frozenset(Kind) - {Kind.ASKED, Kind.BYTES},
        "shape": frozenset((Kind.STATUS, Kind.SHAPE)),
    }
)
"""The bytes of two takes tell them apart, and what they say: their shape would only repeat it."""


def counts(kind: Kind, manner: Manner) -> bool:
    """Whether a difference of this kind makes two exchanges differ."""
    return kind in _COUNT[manner]


def is_shown(kind: Kind, manner: Manner) -> bool:
    """Whether anybody wants to see one."""
    return kind in _SHOWN[manner]


@dataclass(frozen=True, slots=True)
class Difference:
    """One place in which two exchanges differ."""

    kind: Kind
    where: str
    """`$.messages[0].content` of a request, `turns[0].parts[1].text`, `content-type`, …"""
    one: str
    """Its value in the first; empty where that has none."""
    other: str
    """Its value in the second; empty where that has none."""
    counts: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """All of them, in the order of an exchange."""

    one: str
    """The file of the first."""
    other: str
    manner: Manner
    differences: tuple[Difference, ...]

    @property
    def same(self) -> bool:
        """Whether nothing that counts differs."""
        return not any(it.counts for it in self.differences)
