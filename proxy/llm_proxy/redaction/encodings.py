"""The encodings of bytes in texts: escaped characters, base64 and hexadecimal.

What was found in a decoded text is mapped to the text around it, and replaced in its encoding, so
that what is around stays valid.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

_MIN_ENCODED_CHARS: Final = 4
"""The fewest characters of base64 by which a keyword is found."""
MAX_CHARS_BEFORE: Final = 128
"""How far before a keyword the run of base64 or hexadecimal may begin that contains it."""

ESCAPES: Final = (
    rb"\\{1,8}(?:u00(?:[2-7][0-9A-Fa-f]|0[9AaDd])|x[2-7][0-9A-Fa-f]|/)"  # JSON and languages
    rb"|%(?:[2-7][0-9A-Fa-f]|0[9AaDd])"  # URLs
    rb"|&#0{0,4}(?:[0-9]{2,3}|9);|&#[xX]0{0,4}(?:[2-7][0-9A-Fa-f]|[9AaDd]);"  # HTML
)
"""An escaped character of ASCII: a graphic one, a space, a tab or a line end."""
_BASE64_RUN: Final = re.compile(rb"[A-Za-z0-9+/_-]*")
_HEX_RUN: Final = re.compile(rb"[0-9A-Fa-f]*")
_FROM_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")
_TO_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
ESCAPE_EXAMPLES: Final = (
    *(rb"\u00%d0" % digit for digit in (0, *range(2, 8))),
    *(rb"%s%d0" % (mark, digit) for mark in (rb"\x", b"%") for digit in (0, *range(2, 8))),
    *(b"&#%d;" % code for code in (9, 10, 13, *range(32, 127))),
    *(b"&#%s%x;" % (mark, code) for mark in (b"x", b"X") for code in (9, *range(32, 127))),
    *(b"&#%s%s;" % (mark, digit) for mark in (b"x", b"X") for digit in (b"a", b"A", b"d", b"D")),
)
"""Escapes with all beginnings that one may have."""
ESCAPE_STARTS: Final = frozenset(b"\\%&")
_ESCAPE_WINDOW_BYTES: Final = 4096
"""How far behind an escaped character the secret may end that it belongs to."""
_FIRST_NON_ASCII: Final = 128
_NEXT_BYTES: Final = tuple(bytes((code,)) for code in range(0x20, 0x80, 0x10))
"""Bytes with all upper halves that a character of ASCII has."""


@dataclass(frozen=True, slots=True)
class SecretSpan:
    """A secret in a text, and what replaces it."""

    begin: int
    end: int
    replacement: bytes
    """The placeholder, in the encoding of the text around it."""
    rule: str
    """The name of the rule that found it."""
    secret: bytes = field(repr=False)
    """The decoded secret."""
    count: int = 1
    """The number of secrets that `replacement` replaces."""


def escape_windows(
    escapes: Sequence[tuple[int, int]], size: int
) -> Iterator[tuple[int, int, Sequence[tuple[int, int]]]]:
    """The parts of a text around its escapes: begin, end, and the escapes."""
    first = 0
    for number, (_, end) in enumerate(escapes, 1):
        if number == len(escapes) or escapes[number][0] - end > _ESCAPE_WINDOW_BYTES:
            begin = max(0, escapes[first][0] - MAX_CHARS_BEFORE)
            yield begin, min(size, end + _ESCAPE_WINDOW_BYTES), escapes[first:number]
            first = number


def unescape(
    data: bytes, begin: int, end: int, escapes: Iterable[tuple[int, int]]
) -> tuple[bytes, Callable[[int], int]]:
    """`data[begin:end]` with these escapes decoded, and a function from its offsets to `data`'s."""
    pieces: list[bytes] = []
    text_offsets, source_offsets = [0], [begin]
    size = 0
    for first, last in escapes:
        literal = data[source_offsets[-1] : first]
        character = _decode_escape(data[first:last])
        pieces += (literal, character)
        size += len(literal) + len(character)
        text_offsets.append(size)
        source_offsets.append(last)
    pieces.append(data[source_offsets[-1] : end])

    def to_source(offset: int) -> int:
        index = bisect_right(text_offsets, offset) - 1
        return source_offsets[index] + offset - text_offsets[index]

    return b"".join(pieces), to_source


def _decode_escape(escape: bytes) -> bytes:
    if escape.endswith(b"/"):
        return b"/"
    if not escape.endswith(b";"):
        return bytes.fromhex(escape[-2:].decode())
    digits = escape[2:-1].lower()
    code = int(digits[1:], 16) if digits.startswith(b"x") else int(digits)
    return bytes((code,)) if code < _FIRST_NON_ASCII else b" "


@dataclass(frozen=True, slots=True)
class Encoding:
    """An encoding of bytes in letters and digits: base64 or hexadecimal."""

    run: re.Pattern[bytes]
    """Its characters."""
    group_chars: int
    """The characters that are decoded together."""
    literals: Callable[[bytes], Iterator[bytes]]
    """The encoded forms of some bytes, wherever they begin in the encoded data."""
    decode: Callable[[bytes], bytes]
    encode_spans: Callable[[bytes, int, int, bytes, Iterable[SecretSpan]], Iterator[SecretSpan]]
    """The spans in the encoded `data[begin:last]`, from what is decoded of it and its spans."""


def _base64_literals(data: bytes) -> Iterator[bytes]:
    for begin, first_char in enumerate((0, 2, 3)):
        last_char = (begin + len(data)) * 8 // 6
        followers: tuple[bytes, ...] = (b"",)
        if last_char - first_char < _MIN_ENCODED_CHARS:  # with a part of the next byte
            last_char += 1
            followers = _NEXT_BYTES
        literals = {
            b64encode(bytes(begin) + data + follower)[first_char:last_char]
            for follower in followers
        }
        if last_char - first_char >= _MIN_ENCODED_CHARS:
            yield from literals
            yield from (literal.translate(_TO_URL_SAFE) for literal in literals)


def _decode_base64(encoded: bytes) -> bytes:
    size = len(encoded) // 4 * 4 + (0 if len(encoded) % 4 == 1 else len(encoded) % 4)
    padded = encoded[:size].translate(_FROM_URL_SAFE) + b"A" * (-size % 4)
    return b64decode(padded)[: size * 6 // 8]


def _encode_base64_spans(
    data: bytes, begin: int, last: int, decoded: bytes, spans: Iterable[SecretSpan]
) -> Iterator[SecretSpan]:
    """Whole groups of characters, so that what is around them stays valid base64.

    The secrets of one group become one span.
    """
    is_url_safe = any(char in data[begin:last] for char in b"-_")
    joined: list[list[SecretSpan]] = []
    for span in spans:
        if joined and span.begin // 3 < -(-joined[-1][-1].end // 3):
            joined[-1].append(span)
        else:
            joined.append([span])
    for group in joined:
        first_group, end_group = group[0].begin // 3, -(-group[-1].end // 3)
        text, position = b"", first_group * 3
        for span in group:
            text += decoded[position : span.begin] + span.replacement
            position = span.end
        rest = decoded[position : end_group * 3]
        encoded = b64encode(text + b" " * (-len(text + rest) % 3) + rest)
        end = begin + end_group * 4
        if end > last:  # the last group, which may be padded
            end = last + len(data[last : last + 2]) - len(data[last : last + 2].lstrip(b"="))
        yield replace(
            group[0],
            begin=begin + first_group * 4,
            end=end,
            replacement=encoded.translate(_TO_URL_SAFE) if is_url_safe else encoded,
            count=len(group),
        )


def _hex_literals(data: bytes) -> Iterator[bytes]:
    yield from (data.hex().encode(), data.hex().upper().encode())


def _decode_hex(encoded: bytes) -> bytes:
    return bytes.fromhex(encoded[: len(encoded) // 2 * 2].decode())


def _encode_hex_spans(
    data: bytes, begin: int, last: int, decoded: bytes, spans: Iterable[SecretSpan]
) -> Iterator[SecretSpan]:
    del data, last, decoded
    for span in spans:
        yield replace(
            span,
            begin=begin + span.begin * 2,
            end=begin + span.end * 2,
            replacement=span.replacement.hex().encode(),
        )


ENCODINGS: Final = (
    Encoding(_BASE64_RUN, 4, _base64_literals, _decode_base64, _encode_base64_spans),
    Encoding(_HEX_RUN, 2, _hex_literals, _decode_hex, _encode_hex_spans),
)
