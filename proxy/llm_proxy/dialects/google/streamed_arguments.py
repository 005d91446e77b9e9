"""Joins function call arguments that Gemini streams as values by path.

$.city "Ro"   $.city "me"   $.days[0] 3   →   {"city":"Rome","days":[3]}
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import Json

_STEP: Final = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,9})\]|\['([^']*)'\]|\["([^"]*)"\]""")
_DEPTH: Final = 100
"""Steps of the longest path that is followed; JSON writers give up not far beyond."""


@dataclass(slots=True)
class _ArgumentNode:
    """A value as it grows: a container where it has children, else text in pieces, or a scalar."""

    children: dict[str | int, _ArgumentNode] = field(default_factory=dict)
    pieces: list[str] = field(default_factory=list)
    value: Json = None

    def to_json(self) -> Json:
        """The value as it stands."""
        if not self.children:
            return lenient_json.join_pieces(self.pieces) if self.pieces else self.value
        indices = [key for key in self.children if isinstance(key, int)]
        if len(indices) == len(self.children):
            return [self.children[index].to_json() for index in sorted(indices)]
        return {str(key): child.to_json() for key, child in self.children.items()}


class StreamedArguments:
    """The arguments of one call, as their parts come."""

    def __init__(self) -> None:
        self._root = _ArgumentNode()

    def feed(self, partial: Fields) -> None:
        """Read one of `partialArgs`; one whose path cannot be read is left out."""
        steps = _path_steps(lenient_json.str_or_empty(partial.get("jsonPath")))
        if not steps:
            return
        node = self._root
        for step in steps:
            node = node.children.setdefault(step, _ArgumentNode())
        if isinstance(piece := partial.get("stringValue"), str):
            node.pieces.append(piece)
        else:
            node.value = partial.get("numberValue", partial.get("boolValue"))

    def json_text(self) -> str:
        """The object as JSON text; of a call that was cut, as far as it came."""
        return lenient_json.compact_json(self._root.to_json() or {})


def _path_steps(path: str) -> list[str | int]:
    """The steps of a path below its `$`; none where it is no such path."""
    steps: list[str | int] = []
    at = 1
    while path.startswith("$") and at < len(path):
        match = _STEP.match(path, at)
        if not match or len(steps) == _DEPTH:
            return []
        name = next(group for group in match.groups() if group is not None)
        steps.append(int(name) if match.lastindex == 2 else name)
        at = match.end()
    return steps
