"""Texts as a JSON Schema asks for them: of a length, a format, or a pattern."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final
from uuid import UUID

from llm_proxy.chance import seeded_below
from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.scenario.generation.json_schema.budget import SchemaBudget
from llm_proxy.scenario.generation.json_schema.regex_engine import matching

_WORDS: Final = (
    *("alder", "birch", "cedar", "elm", "fir", "hazel", "juniper", "larch"),
    *("linden", "maple", "oak", "pine", "poplar", "rowan", "spruce", "willow"),
)
_DATE: Final = r"\d{4}-\d\d-\d\d"
_TIME: Final = r"\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)"
_LOOKS: Final = {
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
"""What tells the formats apart."""
_LONGEST: Final = 1_000_000
"""Characters of a text."""
_FIRST_DAY: Final = datetime(2024, 1, 1, tzinfo=UTC)
_MINUTES: Final = 525_600
"""In a year."""


def text(schema: Fields, seed: str, budget: SchemaBudget) -> str:
    """A text of the lengths that are asked for, with the pattern or else of the format.

    Raises `ValueError`, with the reason in a few words, where there is none, and `TooMuch`.
    """
    least, most = (
        lenient_json.first_count(schema.get("minLength")) or 0,
        lenient_json.first_count(schema.get("maxLength")),
    )
    if least > _LONGEST:
        raise ValueError(f"{least} characters are too many")
    if most is not None and most < least:
        raise ValueError(f"no text has at least {least} and at most {most} characters")
    if pattern := lenient_json.str_or_empty(schema.get("pattern")):
        return matching(pattern, least, most, seed, budget)
    budget.spend(5 + least // 100)
    form = _FORMATS.get(lenient_json.str_or_empty(schema.get("format")))
    if form is not None:
        made = form(seed)
        if least <= len(made) and (most is None or len(made) <= most):
            return made
    return _of_words(least, most, seed)


def is_of_format(text: str, name: str) -> bool:
    """Whether a text looks as its format says; of a format that is not known, any does."""
    return name not in _LOOKS or re.fullmatch(_LOOKS[name], text) is not None


def word(seed: str) -> str:
    """One word."""
    return _WORDS[seeded_below(len(_WORDS), seed)]


def _of_words(least: int, most: int | None, seed: str) -> str:
    made = f"{word(seed)} {word(seed + ' ')}"
    made += f" {word(seed)}" * (-(-max(least - len(made), 0) // 4))
    limit = max(least, min(len(made), most) if most is not None else len(made))
    return made[:limit] if made[:limit] == made[:limit].rstrip() else made[: limit - 1] + "s"


def _moment(seed: str) -> datetime:
    return _FIRST_DAY + timedelta(minutes=seeded_below(_MINUTES, seed, "moment"))


def _uuid(seed: str) -> str:
    return str(UUID(bytes=sha256(seed.encode("utf-8", "replace")).digest()[:16], version=4))


def _host(seed: str) -> str:
    return f"{word(seed)}.example.com"


_FORMATS: Final[Mapping[str, Callable[[str], str]]] = {
    "date": lambda seed: f"{_moment(seed):%Y-%m-%d}",
    "date-time": lambda seed: f"{_moment(seed):%Y-%m-%dT%H:%M:%SZ}",
    "time": lambda seed: f"{_moment(seed):%H:%M:%SZ}",
    "duration": lambda seed: f"P{1 + seeded_below(30, seed, 'days')}D",
    "email": lambda seed: f"{word(seed)}@example.com",
    "idn-email": lambda seed: f"{word(seed)}@example.com",
    "uri": lambda seed: f"https://example.com/{word(seed)}",
    "url": lambda seed: f"https://example.com/{word(seed)}",
    "uri-reference": lambda seed: f"/{word(seed)}",
    "iri": lambda seed: f"https://example.com/{word(seed)}",
    "json-pointer": lambda seed: f"/{word(seed)}",
    "regex": word,
    "uuid": _uuid,
    "hostname": _host,
    "idn-hostname": _host,
    "ipv4": lambda seed: f"192.0.2.{1 + seeded_below(254, seed, 'host')}",
    "ipv6": lambda seed: f"2001:db8::{1 + seeded_below(0xFFFE, seed, 'host'):x}",
    "byte": lambda seed: b64encode(word(seed).encode()).decode(),
}
"""Addresses are those that documentation may use: nobody has them."""
