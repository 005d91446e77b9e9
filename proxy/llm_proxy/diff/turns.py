"""Compares the decoded turns of two responses."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import cassette_response_turns
from llm_proxy.dialects import lenient_json
from llm_proxy.diff.difference import DifferenceKind
from llm_proxy.diff.flatten import flatten_json
from llm_proxy.turns import Part, ToolCall, Turn

_KIND_BY_FIELD: Final[Mapping[str, DifferenceKind]] = MappingProxyType(
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
"""The kind of difference of a turn's or part's field; other fields are `CONTENT`."""
_CAPITAL_PATTERN: Final = re.compile(r"(?<!^)(?=[A-Z])")

KindPathValues = tuple[DifferenceKind, str, str, str]
_Leaves = dict[str, tuple[DifferenceKind, str]]


def compare_turns(one: Cassette, other: Cassette) -> Iterator[KindPathValues]:
    """Compares turns part by part; ids, finish and usage have their own kinds of difference."""
    first, second = cassette_response_turns(one), cassette_response_turns(other)
    if len(first) != len(second):
        yield DifferenceKind.FINISH, "turns", str(len(first)), str(len(second))
    before, after = _turn_values(first), _turn_values(second)
    for path in dict.fromkeys((*before, *after)):
        kind, value = before.get(path, (None, ""))
        other_kind, other_value = after.get(path, (None, ""))
        difference_kind = kind or other_kind
        if value != other_value and difference_kind is not None:
            yield difference_kind, path, value, other_value


def _turn_values(turns: tuple[Turn, ...]) -> _Leaves:
    leaves: _Leaves = {}
    for turn_index, turn in enumerate(turns):
        path = f"turns[{turn_index}]"
        tool_names = [part.name for part in turn.parts if isinstance(part, ToolCall)]
        leaves[f"{path}.tools"] = (DifferenceKind.TOOLS, ", ".join(tool_names))
        for index, part in enumerate(turn.parts):
            leaves |= _part_values(f"{path}.parts[{index}]", part)
        for field in dataclasses.fields(turn):
            if field.name != "parts":
                leaves |= _field_values(
                    f"{path}.{field.name}", field.name, getattr(turn, field.name)
                )
    return leaves


def _part_values(path: str, part: Part) -> _Leaves:
    part_type = _CAPITAL_PATTERN.sub("_", type(part).__name__).lower()
    leaves: _Leaves = {f"{path}.type": (DifferenceKind.CONTENT, part_type)}
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if isinstance(part, ToolCall) and field.name == "arguments":
            value = _parse_arguments(part.arguments)
        leaves |= _field_values(f"{path}.{field.name}", field.name, value)
    return leaves


def _field_values(path: str, name: str, value: Any) -> _Leaves:
    """The leaves of a field; none where it is empty."""
    json_value = _to_json_value(dict(value) if name == "metadata" else value)
    if json_value in (None, "", [], {}):
        return {}
    kind = _KIND_BY_FIELD.get(name, DifferenceKind.CONTENT)
    return {leaf_path: (kind, text) for leaf_path, text in flatten_json(path, json_value)}


def _to_json_value(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: _to_json_value(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
        return {
            name: field_value
            for name, field_value in fields.items()
            if field_value not in (None, "", [], {})
        }
    if isinstance(value, tuple):
        return [_to_json_value(content) for content in value]
    return value


def _parse_arguments(arguments: str) -> Any:
    """Arguments parsed as JSON, so that white space is ignored; else the text itself."""
    try:
        return lenient_json.parse_json(arguments.encode("utf-8", "surrogatepass"))
    except ValueError:
        return arguments
