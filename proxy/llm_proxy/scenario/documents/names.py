"""The names that fields and words have in documents: snake_case, camelCase, and a few others.

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
        document.Usage: _TOKENS,
        document.Answer: MappingProxyType({"token_usage": "usage"}),
        document.Reply: MappingProxyType({"token_usage": "usage"}),
        document.Mock: MappingProxyType({"token_usage": "usage"}),
    }
)
"""Names that other programs have for a field, by the struct that has it."""


def canonical(written: str, struct: type, names: Iterable[str]) -> str | None:
    """The field of a struct that a written name means; None where it means none.

    `names` are those of its fields.
    """
    known = names if isinstance(names, Mapping) else dict.fromkeys(names)
    if written in known:  # nearly all of them
        return written
    for alias, name in _aliases(struct):
        if name in known and written in (alias, camel(alias)):
            return name
    return next((name for name in known if written in (name, camel(name))), None)


def nearest(written: str, names: Iterable[str]) -> str | None:
    """The name that was probably meant, in the spelling that was written."""
    found = difflib.get_close_matches(snake(written), list(names), 1, _CLOSE)
    if not found:
        return None
    return camel(found[0]) if _HUMP.search(written) else found[0]


def word(written: str, words: Iterable[str]) -> str | None:
    """The word of a choice that a written one means: `tool-call` for `tool_call` or `toolCall`."""
    spelled = snake(written).replace("_", "-")
    return next((it for it in words if spelled == it), None)


def nearest_word(written: str, words: Iterable[str]) -> str | None:
    """The word of a choice that was probably meant."""
    by_spelling = {it.replace("-", "_"): it for it in words}
    spelled = snake(written).replace("-", "_")
    found = difflib.get_close_matches(spelled, by_spelling, 1, _CLOSE)
    return by_spelling[found[0]] if found else None


def snake(name: str) -> str:
    """`toolCalls` as `tool_calls`."""
    return _HUMP.sub("_", name).lower()


def camel(name: str) -> str:
    """`tool_calls` as `toolCalls`."""
    return _SEAM.sub(lambda it: it[1].upper(), name)


def _aliases(struct: type) -> Iterable[tuple[str, str]]:
    for base in struct.__mro__:
        yield from _ALIASES.get(base, {}).items()
