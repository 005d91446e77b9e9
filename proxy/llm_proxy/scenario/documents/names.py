"""Names in documents: snake_case, camelCase and a few aliases.

Only what a struct says of itself is renamed.  Objects of free names (`arguments`,
`failure_error`, `provider_metadata`, …) stay as they are.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from llm_proxy.scenario.documents import document

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEAM: Final = re.compile(r"_([a-z0-9])")
_CLOSE: Final = 0.6

_TOKENS: Final = MappingProxyType(
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
_ALIASES: Final[Mapping[type, Mapping[str, str]]] = MappingProxyType(
    {
        document.UsageSpec: _TOKENS,
        document.ResponseSpec: MappingProxyType({"token_usage": "usage"}),
        document.MockReply: MappingProxyType({"token_usage": "usage"}),
        document.MockSpec: MappingProxyType({"token_usage": "usage"}),
    }
)
"""Names that other programs have for a field, by the struct that has it."""


def canonical_name(written_name: str, struct: type, names: Iterable[str]) -> str | None:
    """The field of a struct that a written name means; None where it means none.

    `names` are those of its fields.
    """
    known = names if isinstance(names, Mapping) else dict.fromkeys(names)
    if written_name in known:  # nearly all of them
        return written_name
    for alias, name in _field_aliases(struct):
        if name in known and written_name in (alias, to_camel_case(alias)):
            return name
    return next((name for name in known if written_name in (name, to_camel_case(name))), None)


def nearest_name(written_name: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant, in the spelling that was written."""
    found = difflib.get_close_matches(to_snake_case(written_name), list(names), 1, _CLOSE)
    if not found:
        return None
    return to_camel_case(found[0]) if _HUMP.search(written_name) else found[0]


def canonical_choice(written_name: str, words: Iterable[str]) -> str | None:
    """The word of a choice that a written one means: `tool-call` for `tool_call` or `toolCall`."""
    spelled = to_snake_case(written_name).replace("_", "-")
    return next((word for word in words if spelled == word), None)


def nearest_choice(written_name: str, words: Iterable[str]) -> str | None:
    """The word of a choice that was probably meant."""
    by_spelling = {word.replace("-", "_"): word for word in words}
    spelled = to_snake_case(written_name).replace("-", "_")
    found = difflib.get_close_matches(spelled, by_spelling, 1, _CLOSE)
    return by_spelling[found[0]] if found else None


def to_snake_case(name: str) -> str:
    """`toolCalls` as `tool_calls`."""
    return _HUMP.sub("_", name).lower()


def to_camel_case(name: str) -> str:
    """`tool_calls` as `toolCalls`."""
    return _SEAM.sub(lambda match: match[1].upper(), name)


def _field_aliases(struct: type) -> Iterable[tuple[str, str]]:
    for base in struct.__mro__:
        yield from _ALIASES.get(base, {}).items()
