"""What a miss says: short enough for an exception, long enough to act on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from llm_proxy import matching
from llm_proxy.cassette import Meta, StoredRequest
from llm_proxy.errors import Miss
from llm_proxy.matching import Difference
from llm_proxy.routing import Call

_SHOWN: Final = 3
"""Differences that the short message names."""
_VALUE: Final = 60
"""Characters of a value that are shown."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cassette that a request could have meant."""

    file: str
    meta: Meta
    request: StoredRequest


@dataclass(frozen=True, slots=True)
class Nearest:
    """The cassette that is most like a request, and how it differs."""

    candidate: Candidate
    nearness: float
    differences: tuple[Difference, ...]


def nearest(call: Call, candidates: Iterable[Candidate]) -> Nearest | None:
    """The candidate that shares most with this call; None where there is none at all."""
    asked = matching.leaves(call.provider, call.stored)
    best: tuple[float, Candidate, dict[str, str]] | None = None
    for candidate in candidates:
        stored = matching.leaves(candidate.meta.provider, candidate.request)
        score = matching.nearness(asked, stored)
        if best is None or score > best[0]:
            best = (score, candidate, stored)
    if best is None:
        return None
    score, candidate, stored = best
    return Nearest(candidate, score, tuple(matching.differences(asked, stored)))


def no_cassette(call: Call, near: Nearest | None, library: str) -> Miss:
    """The miss of a request that has no cassette."""
    asked = _asked(call)
    if near is None:
        return Miss(
            f"no cassette for {asked}: {library} holds none. Record it with llm-proxy record.",
            f"no cassette for {asked}: the library {library} is empty",
        )
    if not near.differences:
        return Miss(
            f"no playable cassette for {asked}: {near.candidate.file} answers this very request "
            "but is not complete, or belongs to another session. See llm-proxy ls.",
            f"no playable cassette for {asked}; {near.candidate.file} is not complete, or "
            f"belongs to session {near.candidate.meta.session} (asked: {call.session})",
        )
    shown = "; ".join(map(_difference, near.differences[:_SHOWN]))
    more = len(near.differences) - _SHOWN
    tail = f"; and {more} more" if more > 0 else ""
    return Miss(
        f"no cassette for {asked}. Nearest is {near.candidate.file}, which differs at {shown}"
        f"{tail}. Record it with llm-proxy record, or make the request the same.",
        "\n".join(
            [
                f"no cassette for {asked} (key {call.key[:16]}, session {call.session})",
                f"nearest: {near.candidate.file} ({near.nearness:.0%} alike)",
                *(f"  {_difference(each)}" for each in near.differences[:20]),
            ]
        ),
    )


def used_up(call: Call, takes: int, ordinal: int) -> Miss:
    """The miss of a request that was recorded less often than it is asked."""
    what = f"request {ordinal} for {_asked(call)}, of which {takes} takes are recorded"
    return Miss(f"no take left: this is {what} (--after-last fail).", f"no take left: {what}")


def _asked(call: Call) -> str:
    model = call.dialect.model(call.request)
    return f"{call.request.method} {call.stored.path}" + (f" ({model})" if model else "")


def _difference(it: Difference) -> str:
    if not it.stored:
        return f"{it.path}: {_short(it.asked)}, not in the cassette"
    if not it.asked:
        return f"{it.path}: missing, cassette has {_short(it.stored)}"
    asked, stored = _apart(it.asked, it.stored)
    return f"{it.path}: {asked}, cassette has {stored}"


def _apart(one: str, other: str) -> tuple[str, str]:
    """Two values cut so that where they first differ is in view."""
    same = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        same += 1
    begin = max(0, same - _VALUE // 3) if max(len(one), len(other)) > _VALUE else 0
    return _short(one, begin), _short(other, begin)


def _short(value: str, begin: int = 0) -> str:
    cut = value[begin : begin + _VALUE]
    return ("…" if begin else "") + cut + ("…" if begin + _VALUE < len(value) else "")
