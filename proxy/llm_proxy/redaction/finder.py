"""Finds secrets in bytes: known values, and values with the shape of a secret.

    bytes ─▶ keywords (one pass of RE2) ─▶ the pattern of the keyword ─▶ spans
                       │
                       └─▶ escapes, base64 or hexadecimal: decoded, and searched again

A keyword is what every secret of a kind begins with, such as `sk-ant-`.  It is found in every
encoding, so that nearly all texts are searched once and nothing is decoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from llm_proxy.redaction.encodings import (
    ENCODINGS,
    ESCAPE_EXAMPLES,
    ESCAPE_STARTS,
    ESCAPES,
    MAX_CHARS_BEFORE,
    Encoding,
    SecretSpan,
    escape_windows,
    unescape,
)
from llm_proxy.redaction.patterns import LONGEST_AFTER_KEYWORD, SECRET_PATTERNS, SecretPattern
from llm_proxy.redaction.placeholders import rule_placeholder

_MAX_DEPTH: Final = 2
"""The most encodings within each other that are decoded."""
_MAX_TOKEN_BYTES: Final = 16 * 1024
"""The longest run of characters that is searched as one token, and the most that is held back."""
_MAX_LITERAL_BYTES: Final = 24
"""The most bytes of a known secret by which its encoded forms are found."""
_TOKEN_BYTES_BEFORE_KEYWORD: Final = max(64, *(each.lookback for each in SECRET_PATTERNS))
"""How many bytes of a token at the end of a text are held back, because the keyword of a secret may
follow them: the most of any `lookback`."""
_KEY_BYTES: Final = 3
"""The bytes by which the patterns of a keyword are looked up: the shortest keyword has as many."""
_TOKEN_CHARS: Final = rb"[^\x00-\x20\"'<>(){}\[\]|^`\x7f-\xff]"
"""The characters of secrets, without those that end one everywhere."""
_TOKEN_RUN: Final = re.compile(_TOKEN_CHARS + b"*")
_LAST_WORDS: Final = re.compile(rb"%b*(?:[ >'`]{1,5}%b+){0,3}" % (_TOKEN_CHARS, _TOKEN_CHARS))
"""Tokens with what may stand between a keyword and its secret: `Bearer `."""
_MESSAGE_ENDS: Final = (b"\n", b"}", b'"', b"\r")
_BLOCK_BEGIN: Final = b"-----BEGIN "
_BLOCK_END: Final = re.compile(rb'-----END [^-"]{0,60}-----|"')
_EXPRESSION_MEMORY_BYTES: Final = 64 * 1024 * 1024
"""The most memory of RE2 for one expression; 2 MB are used."""
_ESCAPE_BEFORE: Final = re.compile(
    rb"(?:\\u([0-9A-Fa-f]{4})|\\x[0-9A-Fa-f]{2}|%[89A-Fa-f][0-9A-Fa-f]"
    rb"|(?:\x1b|\\u001[bB]|\\x1[bB]|\\033)\[[0-9;]{0,16}[A-Za-z])\Z"
)
"""An escape that ends in a letter or digit: of a character beyond ASCII, or of a terminal."""
_MAX_ESCAPE_BYTES: Final = 24
_MAX_BACKSLASHES: Final = 8
"""The most backslashes with which an escape begins."""
_FIRST_NON_ASCII: Final = 128
_WORD: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")


@dataclass(frozen=True, slots=True)
class KnownSecret:
    """What replaces a known secret."""

    rule: str
    placeholder: str


class SecretFinder:
    """Finds the secrets of some patterns and some known secrets.  Thread-safe."""

    def __init__(
        self,
        patterns: PatternIndex | None,
        known_secrets: Mapping[bytes, KnownSecret],
        expressions: Sequence[tuple[str, Any]],
    ) -> None:
        """Each of `expressions`, of RE2, has the name of its rule; no encoding of it is found."""
        self._patterns = patterns
        self._known = known_secrets
        self._known_index = _known_index(frozenset(known_secrets))
        self._known_bytes = b"".join(known_secrets)
        self._expressions = expressions

    def with_known(self, secrets: Mapping[bytes, KnownSecret]) -> SecretFinder:
        """A finder of the same shapes, and of these secrets."""
        return SecretFinder(self._patterns, secrets, self._expressions)

    def __bool__(self) -> bool:
        return bool(self._patterns or self._known_index or self._expressions)

    def find(self, data: bytes) -> list[SecretSpan]:
        """The secrets in `data`, from left to right, without overlaps."""
        spans = self._find(data, 0)
        for rule, expression in self._expressions:
            placeholder = rule_placeholder(rule).encode()
            spans += [
                SecretSpan(match.start(), match.end(), placeholder, rule, match.group())
                for match in expression.finditer(data)
            ]
        return spans if len(spans) < 2 else _without_overlaps(spans)

    def open_offset(self, data: bytes) -> int:
        """The offset from which `data` may be the beginning of a secret; its length if none."""
        first = self._open_offset(data)
        # An escape within JSON strings may begin with several backslashes.
        if first < len(data):
            backslashes = data[max(0, first - _MAX_BACKSLASHES) : first]
            first -= len(backslashes) - len(backslashes.rstrip(b"\\"))
        return first

    def _open_offset(self, data: bytes) -> int:
        first = size = len(data)
        if self._expressions:  # they match what they like, but on one line
            first = max(data.rfind(b"\n") + 1, size - _MAX_TOKEN_BYTES)
        for secret in self._known if data[-1:] in self._known_bytes else ():
            start = data.find(secret[:1], max(0, size - len(secret) + 1))
            while start != -1 and start < first:
                if secret.startswith(data[start:]):
                    first = start
                start = data.find(secret[:1], start + 1)
        block = data.rfind(_BLOCK_BEGIN, max(0, size - _MAX_TOKEN_BYTES)) if self._patterns else -1
        if block >= 0 and _BLOCK_END.search(data, block) is None:
            first = min(first, block)
        if data.endswith(_MESSAGE_ENDS):  # as nearly always
            return first
        begin = _run_start(_LAST_WORDS, data, size, _MAX_TOKEN_BYTES)
        if self._patterns is not None:
            token_begin = _run_start(_TOKEN_RUN, data, size, _TOKEN_BYTES_BEFORE_KEYWORD)
            first = min(first, token_begin, self._patterns.keywords.open_offset(data, begin))
        if self._known_index is not None:
            first = min(first, self._known_index.open_offset(data, begin))
        return first

    def _find(self, data: bytes, depth: int) -> list[SecretSpan]:
        spans: list[SecretSpan] = []
        escapes: list[tuple[int, int]] = []
        if (known_index := self._known_index) is not None:

            def known_secret(begin: int, found: bytes) -> SecretSpan | None:
                if (known := self._known.get(found)) is None:
                    return None
                end, placeholder = begin + len(found), known.placeholder.encode()
                return SecretSpan(begin, end, placeholder, known.rule, found)

            self._find_literals(data, depth, known_index, known_secret, spans, escapes)
        if (patterns := self._patterns) is not None:

            def secret_by_shape(begin: int, _: bytes) -> SecretSpan | None:
                return patterns.match_pattern(data, begin)

            self._find_literals(data, depth, patterns.keywords, secret_by_shape, spans, escapes)
        if escapes and depth < _MAX_DEPTH:
            spans += self._find_escaped(data, depth, escapes)
        return spans

    def _find_literals(
        self,
        data: bytes,
        depth: int,
        index: _LiteralIndex,
        secret_at: Callable[[int, bytes], SecretSpan | None],
        spans: list[SecretSpan],
        escapes: list[tuple[int, int]],
    ) -> None:
        """Add the secrets to `spans`, and where characters are escaped to `escapes`."""
        if index.frequent_pattern is not None:
            found_spans = (
                secret_at(match.start(), match.group())
                for match in index.frequent_pattern.finditer(data)
            )
            spans += [span for span in found_spans if span is not None]
        position, decoded_until = 0, dict[int, int]()
        while (match := index.pattern.search(data, position)) is not None:
            begin, end = match.span()
            found = data[begin:end]
            position = begin + 1
            if (span := secret_at(begin, found)) is not None:
                spans.append(span)
                position = max(position, span.end)
            elif (encoding := index.encodings.get(found)) is not None:
                chars = encoding.group_chars
                if begin >= decoded_until.get(chars, 0) and depth < _MAX_DEPTH:
                    decoded_until[chars] = self._find_encoded(data, begin, encoding, depth, spans)
            elif found[0] in ESCAPE_STARTS and (not escapes or escapes[-1][1] <= begin):
                escapes.append((begin, end))

    def _find_escaped(
        self, data: bytes, depth: int, escapes: Iterable[tuple[int, int]]
    ) -> Iterator[SecretSpan]:
        """The secrets that are written with escapes: their placeholders are not escaped."""
        for window in escape_windows(sorted(set(escapes)), len(data)):
            text, to_source = unescape(data, *window)
            for span in self._find(text, depth + 1):
                yield replace(span, begin=to_source(span.begin), end=to_source(span.end))

    def _find_encoded(
        self, data: bytes, position: int, encoding: Encoding, depth: int, spans: list[SecretSpan]
    ) -> int:
        """Add the secrets in the base64 or hexadecimal around a position, in the same encoding.

        Returns the offset up to which it was decoded.
        """
        first = _run_start(encoding.run, data, position, MAX_CHARS_BEFORE)
        run = encoding.run.match(data, position, position + _MAX_TOKEN_BYTES)
        last = run.end() if run is not None else position
        for alignment in range(encoding.group_chars):
            begin = first + alignment
            decoded = encoding.decode(data[begin:last])
            if inner := _without_overlaps(self._find(decoded, depth + 1)):
                spans += encoding.encode_spans(data, begin, last, decoded, inner)
        return last if last - position < _MAX_TOKEN_BYTES else last - _MAX_TOKEN_BYTES // 4


def _run_start(run: re.Pattern[bytes], data: bytes, end: int, limit: int) -> int:
    """Where the run of some characters begins that ends at `end`; at most `limit` before."""
    match = run.match(data[max(0, end - limit) : end][::-1])
    return end - match.end() if match is not None else end


def _without_overlaps(spans: Iterable[SecretSpan]) -> list[SecretSpan]:
    """The spans from left to right; of those that overlap, the longest, widened to all of them."""
    joined: list[SecretSpan] = []
    for span in sorted(spans, key=lambda span: (span.begin, -span.end)):
        if not joined or joined[-1].end <= span.begin:
            joined.append(span)
            continue
        last = joined[-1]
        longest = max((last, span), key=lambda each: each.end - each.begin)
        joined[-1] = replace(longest, begin=last.begin, end=max(last.end, span.end))
    return joined


@dataclass(frozen=True, slots=True)
class _LiteralIndex:
    """Finds literals in all encodings, in one pass over a text."""

    pattern: Any
    """Finds a literal in any encoding, or an escaped character; not a frequent one."""
    frequent_pattern: Any
    """Finds a literal that is frequent, with what at least follows it; None if there is none."""
    tail_pattern: Any
    """Finds any literal in any encoding, or an escaped character."""
    literals: frozenset[bytes]
    """The literals as they are."""
    encodings: Mapping[bytes, Encoding]
    """The encoding of each encoded literal."""
    prefixes: frozenset[bytes]
    """The beginnings of encoded literals and of escapes, and of plain ones if they are short."""
    longest_bytes: int
    """The length of the longest of `prefixes`."""
    are_keywords: bool
    """Whether the literals are the beginnings of secrets, and not whole secrets."""

    def open_offset(self, data: bytes, begin: int) -> int:
        """The offset from which the last words, which begin at `begin`, must be held back.

        A literal in them may be the beginning of a secret, and so may their last characters.
        """
        position = begin
        while (match := self.tail_pattern.search(data, position)) is not None:
            is_whole = not self.are_keywords and match.group() in self.literals
            if not is_whole:
                return begin
            position = match.start() + 1
        size = len(data)
        first = max(begin, size - self.longest_bytes)
        return next((at for at in range(first, size) if data[at:] in self.prefixes), size)


def _literal_index(
    literals: Iterable[bytes],
    *,
    are_keywords: bool,
    continuations: Mapping[bytes, bytes] = {},
) -> _LiteralIndex:
    """The index of some literals.  Some are frequent: they are searched with what follows them."""
    plain = frozenset(literals)
    encodings = {
        encoded: encoding
        for literal in plain
        for encoding in ENCODINGS
        for encoded in encoding.literals(literal[:_MAX_LITERAL_BYTES])
        if encoded not in plain
    }
    with_prefixes = (*encodings, *ESCAPE_EXAMPLES, *(plain if are_keywords else ()))
    prefixes = frozenset(each[:size] for each in with_prefixes for size in range(1, len(each)))
    any_literal = _compile_any(map(re.escape, (*plain, *encodings)), ESCAPES)
    unfrequent = any_literal
    if continuations:
        rest = {*plain, *encodings} - continuations.keys()
        unfrequent = _compile_any(map(re.escape, rest), ESCAPES)
    return _LiteralIndex(
        unfrequent,
        _compile_any(re.escape(each) + rest for each, rest in continuations.items()),
        any_literal,
        plain,
        encodings,
        prefixes,
        max(map(len, prefixes)),
        are_keywords,
    )


def _compile_any(expressions: Iterable[bytes], last: bytes = b"") -> Any:
    """One expression that finds any of these, the longest first, and then `last`; None for none."""
    import re2  # noqa: PLC0415 # 5 ms, only where something is redacted

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    options.log_errors = False
    options.max_mem = _EXPRESSION_MEMORY_BYTES
    ordered = [*sorted(expressions, key=len, reverse=True), *([last] if last else [])]
    return re2.compile(b"|".join(ordered), options) if ordered else None


@dataclass(frozen=True, slots=True)
class PatternIndex:
    """The patterns by their keywords."""

    keywords: _LiteralIndex
    patterns: Mapping[bytes, tuple[tuple[bytes, SecretPattern], ...]]
    """By the first bytes of a keyword: the keywords that begin so, in the order of the patterns."""

    def match_pattern(
        self, data: bytes, position: int, *, is_inner: bool = False
    ) -> SecretSpan | None:
        """The secret whose keyword is at a position; `is_inner` within another match."""
        candidates = self.patterns.get(data[position : position + _KEY_BYTES]) or self.patterns.get(
            data[position : position + 1], ()
        )
        for keyword, pattern in candidates:
            if not data.startswith(keyword, position):
                continue
            expression = _compile(pattern.regex)
            if pattern.lookback:
                starts = range(max(0, position - pattern.lookback), position + 1)
                last = position + LONGEST_AFTER_KEYWORD
                matches = (expression.match(data, start, last) for start in starts)
                match = next((each for each in matches if each and each.end() > position), None)
            elif _continues_word(data, position):
                continue
            else:
                match = expression.match(data, position)
            if match is None:
                continue
            group = 1 if match.lastindex else 0
            begin, end = match.span(group)
            # Behind `Bearer ` there may be a key that has a shape of its own.
            own_shape = None
            if begin > position and not is_inner:
                own_shape = self.match_pattern(data, begin, is_inner=True)
            placeholder = rule_placeholder(pattern.name).encode()
            return own_shape or SecretSpan(begin, end, placeholder, pattern.name, match[group])
        return None


def pattern_index(patterns: Iterable[SecretPattern]) -> PatternIndex | None:
    """The index of some patterns; None if there are none."""
    by_prefix: dict[bytes, list[tuple[bytes, SecretPattern]]] = {}
    patterns = tuple(patterns)
    for pattern in patterns:
        for keyword in map(str.encode, pattern.keywords):
            by_prefix.setdefault(keyword[:_KEY_BYTES], []).append((keyword, pattern))
    if not by_prefix:
        return None
    all_keywords = [
        (keyword.encode(), pattern.continuation.encode())
        for pattern in patterns
        for keyword in pattern.keywords
    ]
    index = _literal_index(
        (keyword for keyword, _ in all_keywords),
        are_keywords=True,
        continuations={keyword: rest for keyword, rest in all_keywords if rest},
    )
    return PatternIndex(index, {prefix: tuple(each) for prefix, each in by_prefix.items()})


@lru_cache(64)  # clients send the same credentials again and again
def _known_index(secrets: frozenset[bytes]) -> _LiteralIndex | None:
    """The index of known secrets; None if there are none."""
    return _literal_index(secrets, are_keywords=False) if secrets else None


@lru_cache(256)  # 80 patterns, most of which are never tried
def _compile(regex: str) -> re.Pattern[bytes]:
    return re.compile(regex.encode())


def _continues_word(data: bytes, position: int) -> bool:
    """Whether a letter or digit stands before the one at a position: `task-` has no `sk-`."""
    if position == 0 or data[position] not in _WORD or (before := data[position - 1]) not in _WORD:
        return False
    if before in b"bfnrt" and data[position - 2 : position - 1] == b"\\":  # `\n` of JSON
        return False
    escape = _ESCAPE_BEFORE.search(data, max(0, position - _MAX_ESCAPE_BYTES), position)
    if escape is None:
        return True
    code = int(escape[1] or b"0", 16)
    return code < _FIRST_NON_ASCII and code in _WORD
