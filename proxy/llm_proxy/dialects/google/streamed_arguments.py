"""Joins function call arguments that Gemini streams as values by path.

$.city "Ro"   $.city "me"   $.days[0] 3   →   {"city":"Rome","days":[3]}
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from llm_proxy.dialects.lenient_json import Fields, compact_json, get_string, join_pieces
from llm_proxy.turns import Json

_PATH_STEP: Final = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,9})\]|\['([^']*)'\]|\["([^"]*)"\]""")
_MAX_PATH_STEPS: Final = 100
"""The limit of steps in a path; JSON encoders fail not far beyond."""


@dataclass(slots=True)
class _ArgumentNode:
    """A partial value: a container where it has children, else text in pieces, or a scalar."""

    children: dict[str | int, _ArgumentNode] = field(default_factory=dict)
    text_pieces: list[str] = field(default_factory=list)
    scalar: Json = None

    def to_json(self) -> Json:
        """The value so far: an array where all keys are indices, else an object."""
        if not self.children:
            return join_pieces(self.text_pieces) if self.text_pieces else self.scalar
        indices = [key for key in self.children if isinstance(key, int)]
        if len(indices) == len(self.children):
            return [self.children[index].to_json() for index in sorted(indices)]
        return {str(key): child.to_json() for key, child in self.children.items()}


class StreamedArguments:
    """Collects the arguments of one call from its `partialArgs`."""

    def __init__(self) -> None:
        self._root = _ArgumentNode()

    def feed(self, partial: Fields) -> None:
        """Add one of `partialArgs`; one with an invalid `jsonPath` is ignored."""
        steps = _parse_json_path(get_string(partial, "jsonPath"))
        if not steps:
            return
        node = self._root
        for step in steps:
            node = node.children.setdefault(step, _ArgumentNode())
        if isinstance(piece := partial.get("stringValue"), str):
            node.text_pieces.append(piece)
        else:
            node.scalar = partial.get("numberValue", partial.get("boolValue"))

    def json_text(self) -> str:
        """The arguments so far, as the JSON text of an object."""
        return compact_json(self._root.to_json() or {})


def _parse_json_path(path: str) -> list[str | int]:
    """The names and indices of a path after `$`; none where it is invalid or too long."""
    steps: list[str | int] = []
    position = 1
    while path.startswith("$") and position < len(path):
        match = _PATH_STEP.match(path, position)
        if not match or len(steps) == _MAX_PATH_STEPS:
            return []
        name = next(group for group in match.groups() if group is not None)
        steps.append(int(name) if match.lastindex == 2 else name)
        position = match.end()
    return steps
