"""Limits the work per generated value: schemas come with requests, and some are unbounded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llm_proxy.turns import Json

MAX_STEPS: Final = 150_000
"""Per generated value; a step takes a few microseconds at most."""
_MAX_DEPTH: Final = 200
"""The most nested lists and objects in a value."""
_CHARS_PER_STEP: Final = 100
"""Characters of a string that cost one step."""


class SchemaTooExpensive(Exception):
    """A schema needs too much work; the message names the cause."""


@dataclass(slots=True)
class SchemaBudget:
    """The steps left; everything that visits a schema or a value spends some."""

    steps_left: int = MAX_STEPS

    def spend(self, steps: int = 1) -> None:
        """Deduct steps.  Raises `SchemaTooExpensive` if too few are left."""
        self.steps_left -= steps
        if self.steps_left < 0:
            raise SchemaTooExpensive("it asks for too much work")

    def spend_for_value(self, value: Json, depth: int = 0) -> None:
        """Deduct steps in proportion to the size of a value.

        Raises `SchemaTooExpensive` if too few are left, or if the value is nested too deeply.
        """
        if depth > _MAX_DEPTH:
            raise SchemaTooExpensive("its values are nested too deeply")
        self.spend()
        match value:
            case str():
                self.spend(len(value) // _CHARS_PER_STEP)
            case list():
                for item in value:
                    self.spend_for_value(item, depth + 1)
            case dict():
                for name, member in value.items():
                    self.spend(1 + len(name) // _CHARS_PER_STEP)
                    self.spend_for_value(member, depth + 1)
            case _:
                pass
