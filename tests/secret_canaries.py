"""Secrets of every kind in every encoding, and a search for what is left of them.

The search decodes what is stored on its own: none of it is shared with the code that redacts.
"""

from __future__ import annotations

import html
import json
import re
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote_to_bytes

MAX_REST: Final = 6
"""The most characters of a secret that may be left, for example of its prefix."""


@dataclass(frozen=True, slots=True)
class Carrier:
    """A secret, and the text in which it is recognised."""

    secret: str
    text: str = "{}"

    @property
    def full_text(self) -> str:
        """The text with the secret."""
        return self.text.format(self.secret)


# No key is written as one literal: a forge would take it for a real one.
_RANDOM: Final = "vQ8mZ2xK7pLwR4tY9nBcF3hJ6sDgA5eUiXoT1rMyVbNkWzEqHfGjPlCuSa0OdIvXb"
_PEM_LINES: Final = (
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n"
    "MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu"
)
CLIENT_SECRET: Final = "q7" + "r4Tz81-Kp/0xWv_93Lm+Ye"
"""A credential without a shape: only the request's header makes it known."""
ENVIRONMENT_SECRET: Final = "w3" + "Xk!82-Lq/5vRm_70Tz"
"""A secret without a shape: only a variable of the environment makes it known."""
CARRIERS: Final = {
    "Anthropic key": Carrier("sk-ant-" + "api03-" + _RANDOM),
    "OpenAI project key": Carrier("sk-proj-" + _RANDOM[3:50] + "_" + _RANDOM[:20]),
    "Google key": Carrier("AIza" + "Sy" + _RANDOM[:33]),
    "AWS key id": Carrier("AKIA" + "Q3ZT7KDM2XWY5LBH"),
    "GitHub token": Carrier("ghp_" + _RANDOM[5:41]),
    "Slack token": Carrier("xoxb-" + "2847193056-" + _RANDOM[:24]),
    "JWT": Carrier(".".join(("ey" + "JhbGciOiJIUzI1NiJ9", "eyJzdWIiOiJub2JvZHkifQ", _RANDOM[:43]))),
    "private key": Carrier(
        _PEM_LINES, "-----BEGIN PRIVATE" + " KEY-----\n{}\n-----END PRIVATE" + " KEY-----\n"
    ),
    "URL password": Carrier(_RANDOM[:18], "postgresql://app:{}@db.internal:5432/app"),
    "Bearer token": Carrier(_RANDOM[2:42], "Authorization: Bearer {}"),
    "Cloudflare cookie": Carrier(_RANDOM[:43] + "-1764298000-1.0.1.1", "__cf_bm={}; path=/"),
    "OpenAI organisation": Carrier("org-" + _RANDOM[8:32]),
    "client credential": Carrier(CLIENT_SECRET),
    "environment secret": Carrier(ENVIRONMENT_SECRET),
}


def _code_points(template: str, every: int = 1) -> Callable[[str], str]:
    """Every ASCII character, or every nth one, written by its number."""

    def encode(text: str) -> str:
        return "".join(
            template.format(ord(char)) if number % every == 0 else char
            for number, char in enumerate(text)
        )

    return encode


def _base64_behind(prefix: str) -> Callable[[str], str]:
    return lambda text: b64encode(f"{prefix}{text}\n".encode()).decode()


def _json_string(text: str) -> str:
    return json.dumps(text)[1:-1]


ENCODINGS: Final[dict[str, Callable[[str], str]]] = {
    "plain": str,
    "JSON-escaped": _json_string,
    "JSON-escaped with slashes": lambda text: _json_string(text).replace("/", "\\/"),
    "JSON-escaped twice": lambda text: _json_string(_json_string(text)),
    "JSON within JSON": lambda text: json.dumps({"a": json.dumps({"b": text})}),
    "\\u for all characters": _code_points("\\u{:04x}"),
    "\\U for some characters": _code_points("\\u{:04X}", 5),
    "percent for all characters": _code_points("%{:02X}"),
    "percent for some characters": _code_points("%{:02x}", 3),
    "percent as in URLs": lambda text: quote(text, safe=""),
    "base64": _base64_behind(""),
    "base64, shifted by one byte": _base64_behind("="),
    "base64, shifted by two bytes": _base64_behind(": "),
    "base64 for URLs": lambda text: (
        urlsafe_b64encode(f"\x7f?>ÿþ{text}".encode()).decode().strip("=")
    ),
    "hexadecimal": lambda text: text.encode().hex(),
    "hexadecimal in capitals": lambda text: text.encode().hex().upper(),
    "HTML in decimal": _code_points("&#{};"),
    "HTML in hexadecimal": _code_points("&#x{:x};"),
}


@dataclass(frozen=True, slots=True)
class Canary:
    """A secret in one encoding."""

    name: str
    secret: str
    text: str
    """What is sent."""


def _canaries() -> Iterator[Canary]:
    for carrier_name, carrier in CARRIERS.items():
        for encoding_name, encode in ENCODINGS.items():
            name = f"{carrier_name}, {encoding_name}"
            yield Canary(name, carrier.secret, encode(carrier.full_text))


CANARIES: Final = tuple(_canaries())

_BASE64: Final = re.compile(rb"[A-Za-z0-9+/_-]{8,}")
_HEX: Final = re.compile(rb"(?:[0-9A-Fa-f]{2}){4,}")
_UNICODE_ESCAPE: Final = re.compile(rb"\\+u00([2-7][0-9A-Fa-f])|\\+([/\"])")


def _decodings(data: bytes) -> Iterator[bytes]:
    """`data` without one layer of each encoding."""
    unescaped = _UNICODE_ESCAPE.sub(
        lambda found: bytes.fromhex(found[1].decode()) if found[1] else found[2], data
    )
    if unescaped != data:
        yield unescaped
    yield from (each for each in (data.replace(b"\\n", b"\n"),) if each != data)
    if b"%" in data:
        yield unquote_to_bytes(data)
    if b"&#" in data:
        yield html.unescape(data.decode("latin-1")).encode("latin-1", "replace")
    for run in _BASE64.findall(data):
        standard = run.replace(b"-", b"+").replace(b"_", b"/")
        for begin in range(4):
            aligned = standard[begin:]
            aligned = aligned[: len(aligned) - (len(aligned) % 4 == 1)]
            yield b64decode(aligned + b"=" * (-len(aligned) % 4))
    for run in _HEX.findall(data):
        yield bytes.fromhex(run.decode())


def decoded_views(data: bytes, depth: int) -> Iterator[bytes]:
    """`data`, and what is left of it without some layers of encodings."""
    yield data
    if depth:
        for decoded in set(_decodings(data)):
            yield from decoded_views(decoded, depth - 1)


def rest_of(secret: str, stored: Iterable[bytes], depth: int = 2) -> str:
    """A part of a secret in what is stored that is longer than `MAX_REST`; empty if there is none.

    `depth` is the number of layers of encodings that are removed.
    """
    windows = {secret[at : at + MAX_REST + 1].encode() for at in range(len(secret) - MAX_REST)}
    pattern = re.compile(b"|".join(map(re.escape, windows)))
    for data in stored:
        for view in decoded_views(data, depth):
            if (found := pattern.search(view)) is not None:
                return f"{found.group().decode()} in {view[max(0, found.start() - 200) :][:400]!r}"
    return ""


def joined_texts(documents: Iterable[object]) -> Iterator[bytes]:
    """The text of every field that a stream has in pieces: its strings, joined by their path."""
    texts: dict[object, list[str]] = defaultdict(list)
    for document in documents:
        _collect(document, (), texts)
    return ("".join(pieces).encode("utf-8", "surrogatepass") for pieces in texts.values())


def _collect(value: Any, path: tuple[object, ...], texts: dict[object, list[str]]) -> None:
    match value:
        case str():
            texts[path].append(value)
        case dict():
            place = (*path, *(value[name] for name in ("index", "type") if name in value))
            for name, item in value.items():
                _collect(item, (*place, name), texts)
        case list():
            for number, item in enumerate(value):
                _collect(item, (*path, number), texts)
        case _:
            pass
