"""How two answers differ in what they say, as their dialects read them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from llm_proxy.cassette import Cassette
from llm_proxy.cassette_views import turns_of
from llm_proxy.dialects import lenient_json
from llm_proxy.diff.difference import Kind
from llm_proxy.diff.flatten import flat
from llm_proxy.turns import Part, ToolCall, Turn

_KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "id": Kind.ID,
        "call_id": Kind.ID,
        "signature": Kind.ID,
        "redacted": Kind.ID,
        "metadata": Kind.ID,
        "model": Kind.MODEL,
        "finish": Kind.FINISH,
        "finish_raw": Kind.FINISH,
        "failure": Kind.FINISH,
        "usage": Kind.USAGE,
    }
)
"""What a field of a turn is, where it is nothing that was said."""
_CAPITALS: Final = re.compile(r"(?<!^)(?=[A-Z])")

Found = tuple[Kind, str, str, str]
_Leaves = dict[str, tuple[Kind, str]]


def said(one: Cassette, other: Cassette) -> Iterator[Found]:
    """Turn by turn and part by part; ids, finish and usage of each are told apart from it."""
    first, second = turns_of(one), turns_of(other)
    if len(first) != len(second):
        yield Kind.FINISH, "turns", str(len(first)), str(len(second))
    before, after = _leaves(first), _leaves(second)
    for where in dict.fromkeys((*before, *after)):
        kind, value = before.get(where, (None, ""))
        others, another = after.get(where, (None, ""))
        found = kind or others
        if value != another and found is not None:
            yield found, where, value, another


def _leaves(turns: tuple[Turn, ...]) -> _Leaves:
    leaves: _Leaves = {}
    for number, turn in enumerate(turns):
        path = f"turns[{number}]"
        calls = [part.name for part in turn.parts if isinstance(part, ToolCall)]
        leaves[f"{path}.tools"] = (Kind.TOOLS, ", ".join(calls))
        for index, part in enumerate(turn.parts):
            leaves |= _part(f"{path}.parts[{index}]", part)
        for field in dataclasses.fields(turn):
            if field.name != "parts":
                leaves |= _field(f"{path}.{field.name}", field.name, getattr(turn, field.name))
    return leaves


def _part(path: str, part: Part) -> _Leaves:
    kind = _CAPITALS.sub("_", type(part).__name__).lower()
    leaves: _Leaves = {f"{path}.type": (Kind.SAID, kind)}
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if isinstance(part, ToolCall) and field.name == "arguments":
            value = _read(part.arguments)
        leaves |= _field(f"{path}.{field.name}", field.name, value)
    return leaves


def _field(path: str, name: str, value: Any) -> _Leaves:
    """The values of a field; none where it says nothing."""
    plain = _plain(dict(value) if name == "metadata" else value)
    if plain in (None, "", [], {}):
        return {}
    kind = _KINDS.get(name, Kind.SAID)
    return {where: (kind, text) for where, text in flat(path, plain)}


def _plain(value: Any) -> Any:
    """A value of a turn as JSON has it, without what says nothing."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {it.name: _plain(getattr(value, it.name)) for it in dataclasses.fields(value)}
        return {name: it for name, it in fields.items() if it not in (None, "", [], {})}
    if isinstance(value, tuple):
        return [_plain(it) for it in value]
    return value


def _read(arguments: str) -> Any:
    """Arguments as the JSON that they mostly are, so that spaces in it do not count."""
    try:
        return lenient_json.parse(arguments.encode("utf-8", "surrogatepass"))
    except ValueError:
        return arguments
