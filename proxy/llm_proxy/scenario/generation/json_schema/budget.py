"""How much work one value may be: schemas come with requests, and some ask for no end of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from llm_proxy.turns import Json

STEPS: Final = 150_000
"""Steps that one value may take, each of them a few microseconds at most."""
_DEEPEST: Final = 200
"""Lists and objects within each other, in a value."""
_CHARACTERS: Final = 100
"""Of a text, that are one step."""


class SchemaTooExpensive(Exception):
    """A schema asks for more than anybody could want; says in a few words what of."""


@dataclass(slots=True)
class SchemaBudget:
    """The steps that are left: everything that looks at a schema or a value spends of them."""

    left: int = STEPS

    def spend(self, steps: int = 1) -> None:
        """Take steps.  Raises `TooMuch` where no more are left."""
        self.left -= steps
        if self.left < 0:
            raise SchemaTooExpensive("it asks for too much work")

    def weigh(self, value: Json) -> None:
        """Take as many steps as a value is large.

        Raises `TooMuch` for more than are left, and for one that is too deep to be written.
        """
        level = [value]
        for _ in range(_DEEPEST):
            if not level:
                return
            inner: list[Json] = []
            for content in level:
                match content:
                    case str():
                        self.spend(1 + len(content) // _CHARACTERS)
                    case list():
                        self.spend(1 + len(content))
                        inner += content
                    case dict():
                        self.spend(1 + sum(1 + len(name) // _CHARACTERS for name in content))
                        inner += content.values()
                    case _:
                        self.spend()
            level = inner
        raise SchemaTooExpensive("its values are nested too deeply")
