"""Names in documents: snake_case, camelCase and a few aliases.

Only the fields of structs are renamed.  Objects with arbitrary names (`arguments`,
`failure_error`, `provider_metadata`, …) stay as they are.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final

from msgspec import Struct

from llm_proxy.errors import printable_excerpt
from llm_proxy.scenario.documents import document

_CAMEL_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SNAKE_BOUNDARY: Final = re.compile(r"_([a-z0-9])")
_MIN_SIMILARITY: Final = 0.6
_MAX_VALUE_CHARS: Final = 40
"""The most characters of a value in a message."""

_USAGE_ALIAS: Final = {"token_usage": "usage"}
_ALIASES_BY_STRUCT: Final[Mapping[type, Mapping[str, str]]] = {
    document.UsageSpec: {
        "input_tokens": "input",
        "prompt_tokens": "input",
        "output_tokens": "output",
        "completion_tokens": "output",
        "total_tokens": "total",
        "cache_read_tokens": "cache_read",
        "cache_read_input_tokens": "cache_read",
        "cached_input_tokens": "cache_read",
        "cache_write_tokens": "cache_write",
        "cache_creation_input_tokens": "cache_write",
        "reasoning_tokens": "reasoning",
    },
    document.ResponseSpec: _USAGE_ALIAS,
    document.MockReply: _USAGE_ALIAS,
    document.MockSpec: _USAGE_ALIAS,
}
"""By struct, the names of other programs for its fields."""


@cache
def fields_by_spelling(struct: type[Struct]) -> Mapping[str, str]:
    """The fields of a struct by name: canonical ones, aliases, and these in camelCase."""
    names = {name: name for name in struct.__struct_encode_fields__}
    aliases = {
        alias: name
        for base in struct.__mro__
        for alias, name in _ALIASES_BY_STRUCT.get(base, {}).items()
    }
    camel_names = {to_camel_case(name): field for name, field in (names | aliases).items()}
    return camel_names | aliases | names


def nearest_field_name(written_name: str, field_names: Iterable[str]) -> str | None:
    """The most similar field name, in camelCase if the written name is; None if none is near."""
    name = nearest_choice(written_name, field_names)
    return to_camel_case(name) if name and _CAMEL_BOUNDARY.search(written_name) else name


def canonical_choice(written_choice: str, choices: Iterable[str]) -> str | None:
    """The choice in kebab-case spelling: `tool-call` for `tool_call` or `toolCall`."""
    kebab_choice = to_snake_case(written_choice).replace("_", "-")
    return next((choice for choice in choices if kebab_choice == choice), None)


def nearest_choice(written_choice: str, choices: Iterable[str]) -> str | None:
    """The most similar choice; None if none is near."""
    choice_by_snake_name = {choice.replace("-", "_"): choice for choice in choices}
    snake_name = to_snake_case(written_choice).replace("-", "_")
    close_names = difflib.get_close_matches(snake_name, choice_by_snake_name, 1, _MIN_SIMILARITY)
    return choice_by_snake_name[close_names[0]] if close_names else None


def choice_message(value: str, choices: Sequence[str]) -> str:
    """The message for a value that is not one of the choices, with a suggestion."""
    suggestion = nearest_choice(value, choices)
    hint = f"did you mean '{suggestion}'?" if suggestion else f"known: {', '.join(sorted(choices))}"
    return f"unknown value '{printable_excerpt(value, _MAX_VALUE_CHARS)}'; {hint}"


def to_snake_case(name: str) -> str:
    """`toolCalls` as `tool_calls`."""
    return _CAMEL_BOUNDARY.sub("_", name).lower()


def to_camel_case(name: str) -> str:
    """`tool_calls` as `toolCalls`."""
    return _SNAKE_BOUNDARY.sub(lambda match: match[1].upper(), name)
