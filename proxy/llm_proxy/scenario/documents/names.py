"""Names in documents: snake_case, camelCase and a few aliases.

Only the fields of structs are renamed.  Objects with arbitrary names (`arguments`,
`failure_error`, `provider_metadata`, …) stay as they are.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from llm_proxy.scenario.documents import document

_CAMEL_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SNAKE_BOUNDARY: Final = re.compile(r"_([a-z0-9])")
_MIN_SIMILARITY: Final = 0.6

_TOKEN_ALIASES: Final = MappingProxyType(
    {
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
    }
)
_ALIASES_BY_STRUCT: Final[Mapping[type, Mapping[str, str]]] = MappingProxyType(
    {
        document.UsageSpec: _TOKEN_ALIASES,
        document.ResponseSpec: MappingProxyType({"token_usage": "usage"}),
        document.MockReply: MappingProxyType({"token_usage": "usage"}),
        document.MockSpec: MappingProxyType({"token_usage": "usage"}),
    }
)
"""By struct, the names of other programs for its fields."""


def canonical_field_name(written_name: str, struct: type, field_names: Iterable[str]) -> str | None:
    """The field with this name, alias or camelCase spelling of either; None if there is none."""
    known_names = field_names if isinstance(field_names, Mapping) else dict.fromkeys(field_names)
    if written_name in known_names:  # the most frequent case
        return written_name
    for alias, name in _field_aliases(struct):
        if name in known_names and written_name in (alias, to_camel_case(alias)):
            return name
    return next((name for name in known_names if written_name in (name, to_camel_case(name))), None)


def nearest_field_name(written_name: str, field_names: Iterable[str]) -> str | None:
    """The most similar field name, in camelCase if the written name is; None if none is near."""
    close_names = difflib.get_close_matches(
        to_snake_case(written_name), list(field_names), 1, _MIN_SIMILARITY
    )
    if not close_names:
        return None
    return to_camel_case(close_names[0]) if _CAMEL_BOUNDARY.search(written_name) else close_names[0]


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


def to_snake_case(name: str) -> str:
    """`toolCalls` as `tool_calls`."""
    return _CAMEL_BOUNDARY.sub("_", name).lower()


def to_camel_case(name: str) -> str:
    """`tool_calls` as `toolCalls`."""
    return _SNAKE_BOUNDARY.sub(lambda match: match[1].upper(), name)


def _field_aliases(struct: type) -> Iterable[tuple[str, str]]:
    for base in struct.__mro__:
        yield from _ALIASES_BY_STRUCT.get(base, {}).items()
