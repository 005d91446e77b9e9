"""Where the attempts at one wish were put down: a later one takes the place of an earlier one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from llm_proxy.take_numbers import Wish


@dataclass(frozen=True, slots=True)
class Placed:
    """The cassette of the latest attempt."""

    path: Path
    take: int
    """The number that the run gave it."""
    attempt: int
    complete: bool

    def yields_to(self, wish: Wish, *, complete: bool) -> bool:
        """Whether another attempt takes its place: a later one, unless that is worth less."""
        return wish.attempt > self.attempt and (complete or not self.complete)


class Attempts:
    """The cassettes of wishes, as they lie by now."""

    def __init__(self) -> None:
        self._placed: dict[int, Placed] = {}
        self._wishes: dict[Path, int] = {}

    def of(self, wish: Wish | None) -> Placed | None:
        """The cassette of an earlier attempt, or of a later one that was filed before it."""
        return None if wish is None else self._placed.get(wish.number)

    def put(self, wish: Wish | None, it: Placed) -> None:
        """Remember where an attempt was put down."""
        if wish is not None:
            self._placed[wish.number] = it
            self._wishes[it.path] = wish.number

    def moved(self, source: Path, target: Path) -> None:
        """A cassette was renumbered."""
        number = self._wishes.pop(source, None)
        if number is not None:
            self._placed[number] = replace(self._placed[number], path=target)
            self._wishes[target] = number
