"""Generates strings for a JSON Schema: of a length, a format, or a pattern."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final
from uuid import UUID

from llm_proxy.chance import seeded_int_below
from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.scenario.generation.json_schema.budget import SchemaBudget
from llm_proxy.scenario.generation.json_schema.regex_engine import make_matching_text

_WORDS: Final = (
    *("alder", "birch", "cedar", "elm", "fir", "hazel", "juniper", "larch"),
    *("linden", "maple", "oak", "pine", "poplar", "rowan", "spruce", "willow"),
)
_DATE: Final = r"\d{4}-\d\d-\d\d"
_TIME: Final = r"\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)"
_FORMAT_PATTERNS: Final = {
    "date": _DATE,
    "date-time": f"{_DATE}[Tt ]{_TIME}",
    "time": _TIME,
    "duration": "P.+",
    "email": "[^@]+@[^@]+",
    "uri": "[A-Za-z][A-Za-z0-9+.-]*:.*",
    "uuid": "[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}",
    "hostname": r"[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})*",
    "ipv4": r"\d{1,3}(?:\.\d{1,3}){3}",
    "ipv6": "[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*",
}
"""By format, a regular expression that its values match as a whole."""
_MAX_CHARS: Final = 1_000_000
"""The most characters of a generated string."""
_FIRST_DAY: Final = datetime(2024, 1, 1, tzinfo=UTC)
_MINUTES_PER_YEAR: Final = 525_600


def make_text(schema: Fields, seed: str, budget: SchemaBudget) -> str:
    """A string within the lengths of the schema, with its pattern or else in its format.

    Raises `ValueError` with the reason if there is none, and `SchemaTooExpensive`.
    """
    min_chars, max_chars = (
        lenient_json.first_integer(schema.get("minLength")) or 0,
        lenient_json.first_integer(schema.get("maxLength")),
    )
    if min_chars > _MAX_CHARS:
        raise ValueError(f"{min_chars} characters are too many")
    if max_chars is not None and max_chars < min_chars:
        raise ValueError(f"no text has at least {min_chars} and at most {max_chars} characters")
    if pattern := lenient_json.str_or_empty(schema.get("pattern")):
        return make_matching_text(pattern, min_chars, max_chars, seed, budget)
    budget.spend(5 + min_chars // 100)
    make_formatted = _FORMAT_MAKERS.get(lenient_json.str_or_empty(schema.get("format")))
    if make_formatted is not None:
        formatted = make_formatted(seed)
        if min_chars <= len(formatted) and (max_chars is None or len(formatted) <= max_chars):
            return formatted
    return _make_word_text(min_chars, max_chars, seed)


def matches_format(text: str, format_name: str) -> bool:
    """Whether a text matches the regular expression of its format; True for unknown formats."""
    return (
        format_name not in _FORMAT_PATTERNS
        or re.fullmatch(_FORMAT_PATTERNS[format_name], text) is not None
    )


def make_word(seed: str) -> str:
    """The name of a tree, chosen by the seed."""
    return _WORDS[seeded_int_below(len(_WORDS), seed)]


def _make_word_text(min_chars: int, max_chars: int | None, seed: str) -> str:
    text = f"{make_word(seed)} {make_word(seed + ' ')}"
    text += f" {make_word(seed)}" * (-(-max(min_chars - len(text), 0) // 4))
    length = max(min_chars, min(len(text), max_chars) if max_chars is not None else len(text))
    return text[:length] if text[:length] == text[:length].rstrip() else text[: length - 1] + "s"


def _seeded_datetime(seed: str) -> datetime:
    return _FIRST_DAY + timedelta(minutes=seeded_int_below(_MINUTES_PER_YEAR, seed, "moment"))


def _seeded_uuid(seed: str) -> str:
    return str(UUID(bytes=sha256(seed.encode("utf-8", "replace")).digest()[:16], version=4))


def _seeded_hostname(seed: str) -> str:
    return f"{make_word(seed)}.example.com"


_FORMAT_MAKERS: Final[Mapping[str, Callable[[str], str]]] = {
    "date": lambda seed: f"{_seeded_datetime(seed):%Y-%m-%d}",
    "date-time": lambda seed: f"{_seeded_datetime(seed):%Y-%m-%dT%H:%M:%SZ}",
    "time": lambda seed: f"{_seeded_datetime(seed):%H:%M:%SZ}",
    "duration": lambda seed: f"P{1 + seeded_int_below(30, seed, 'days')}D",
    "email": lambda seed: f"{make_word(seed)}@example.com",
    "idn-email": lambda seed: f"{make_word(seed)}@example.com",
    "uri": lambda seed: f"https://example.com/{make_word(seed)}",
    "url": lambda seed: f"https://example.com/{make_word(seed)}",
    "uri-reference": lambda seed: f"/{make_word(seed)}",
    "iri": lambda seed: f"https://example.com/{make_word(seed)}",
    "json-pointer": lambda seed: f"/{make_word(seed)}",
    "regex": make_word,
    "uuid": _seeded_uuid,
    "hostname": _seeded_hostname,
    "idn-hostname": _seeded_hostname,
    "ipv4": lambda seed: f"192.0.2.{1 + seeded_int_below(254, seed, 'host')}",
    "ipv6": lambda seed: f"2001:db8::{1 + seeded_int_below(0xFFFE, seed, 'host'):x}",
    "byte": lambda seed: b64encode(make_word(seed).encode()).decode(),
}
"""Addresses and domains are reserved for documentation: nobody owns them."""
