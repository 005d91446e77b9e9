"""Compares the decoded turns of two responses."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_turns
from llm_proxy.dialects import lenient_json
from llm_proxy.diff.difference import DifferenceKind
from llm_proxy.diff.flatten import flatten
from llm_proxy.turns import Part, ToolCall, Turn

_KINDS: Final[Mapping[str, DifferenceKind]] = MappingProxyType(
    {
        "id": DifferenceKind.ID,
        "call_id": DifferenceKind.ID,
        "signature": DifferenceKind.ID,
        "redacted": DifferenceKind.ID,
        "metadata": DifferenceKind.ID,
        "model": DifferenceKind.MODEL,
        "finish": DifferenceKind.FINISH,
        "finish_raw": DifferenceKind.FINISH,
        "failure": DifferenceKind.FINISH,
        "usage": DifferenceKind.USAGE,
    }
)
"""What a field of a turn is, where it is nothing that was said."""
_CAPITALS: Final = re.compile(r"(?<!^)(?=[A-Z])")

Found = tuple[DifferenceKind, str, str, str]
_Leaves = dict[str, tuple[DifferenceKind, str]]


def compare_turns(one: Cassette, other: Cassette) -> Iterator[Found]:
    """Turn by turn and part by part; ids, finish and usage of each are told apart from it."""
    first, second = cassette_turns(one), cassette_turns(other)
    if len(first) != len(second):
        yield DifferenceKind.FINISH, "turns", str(len(first)), str(len(second))
    before, after = _turn_values(first), _turn_values(second)
    for where in dict.fromkeys((*before, *after)):
        kind, value = before.get(where, (None, ""))
        others, another = after.get(where, (None, ""))
        found = kind or others
        if value != another and found is not None:
            yield found, where, value, another


def _turn_values(turns: tuple[Turn, ...]) -> _Leaves:
    leaves: _Leaves = {}
    for number, turn in enumerate(turns):
        path = f"turns[{number}]"
        calls = [part.name for part in turn.parts if isinstance(part, ToolCall)]
        leaves[f"{path}.tools"] = (DifferenceKind.TOOLS, ", ".join(calls))
        for index, part in enumerate(turn.parts):
            leaves |= _part_values(f"{path}.parts[{index}]", part)
        for field in dataclasses.fields(turn):
            if field.name != "parts":
                leaves |= _field_values(
                    f"{path}.{field.name}", field.name, getattr(turn, field.name)
                )
    return leaves


def _part_values(path: str, part: Part) -> _Leaves:
    kind = _CAPITALS.sub("_", type(part).__name__).lower()
    leaves: _Leaves = {f"{path}.type": (DifferenceKind.SAID, kind)}
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if isinstance(part, ToolCall) and field.name == "arguments":
            value = _parse_arguments(part.arguments)
        leaves |= _field_values(f"{path}.{field.name}", field.name, value)
    return leaves


def _field_values(path: str, name: str, value: Any) -> _Leaves:
    """The values of a field; none where it says nothing."""
    plain = _plain_value(dict(value) if name == "metadata" else value)
    if plain in (None, "", [], {}):
        return {}
    kind = _KINDS.get(name, DifferenceKind.SAID)
    return {where: (kind, text) for where, text in flatten(path, plain)}


def _plain_value(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: _plain_value(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
        return {
            name: argument
            for name, argument in fields.items()
            if argument not in (None, "", [], {})
        }
    if isinstance(value, tuple):
        return [_plain_value(content) for content in value]
    return value


def _parse_arguments(arguments: str) -> Any:
    """Arguments as the JSON that they mostly are, so that spaces in it do not count."""
    try:
        return lenient_json.parse_json(arguments.encode("utf-8", "surrogatepass"))
    except ValueError:
        return arguments
