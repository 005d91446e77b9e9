"""Finds secrets in what is on disk: in all parts of a cassette, or in the bytes of another file."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final

from llm_proxy.cassette import Cassette, StoredRequest, parse_cassette
from llm_proxy.cassette.model import encode_line
from llm_proxy.cassette_edits import JsonPath, find_field_changes
from llm_proxy.cassette_views import cassette_dialect
from llm_proxy.display import json_path_step
from llm_proxy.errors import CassetteError
from llm_proxy.exchange import Headers
from llm_proxy.message_texts import editable_text
from llm_proxy.redaction import (
    NO_REDACTION,
    RedactionRules,
    SecretFinder,
    has_older_rules,
    redact_query,
    redact_request,
    storable_request_headers,
    storable_response_headers,
)
from llm_proxy.redaction.documents import TextRedaction, is_form
from llm_proxy.redaction.headers import QUERY_SEPARATOR
from llm_proxy.redaction.patterns import SECRET_PATTERNS
from llm_proxy.redaction.rules import EXPRESSION_RULE, FIELD_NAMES_RULE, FIELD_RULE

HEADERS_RULE: Final = "headers"
"""The rule for headers that a cassette does not store, or stores without their value."""
RULE_DESCRIPTIONS: Final = {
    **{pattern.name: pattern.covers for pattern in SECRET_PATTERNS},
    FIELD_NAMES_RULE: "values of request fields and query parameters with names such as api_key",
    FIELD_RULE: "values selected by a --redact rule with a field name or a JSONPath",
    EXPRESSION_RULE: "text that matches a --redact regex=PATTERN rule",
    "environment": "secrets from environment variables",
    HEADERS_RULE: "headers that llm-proxy never stores, or stores only as [redacted]",
}
"""What each rule covers, by the name of the rule."""

_CASSETTE_START: Final = re.compile(rb'\s*\{\s*"cassette"\s*:\s*[0-9]')
_REQUEST_LINE: Final = 2
_HEAD_LINE: Final = 3
_FIRST_MESSAGE_LINE: Final = 4
_SHOWN_CHARS: Final = 4
"""The characters of a secret that a report shows."""


@dataclass(frozen=True, slots=True)
class SecretFinding:
    """A secret in a file, without its value."""

    file: str
    line: int
    place: str
    """Where it is in a cassette: `request.body $.messages[0].content`; empty in another file."""
    rule: str
    secret_start: str
    """Its first characters: at most four, and at most a quarter of it."""
    secret_chars: int
    """Its length, as it is spelled in the file."""


@dataclass(frozen=True, slots=True)
class FileScan:
    """What the scan of one file found."""

    findings: tuple[SecretFinding, ...]
    is_cassette: bool = False
    has_older_rules: bool = False
    """Whether it is a cassette that was redacted by rules older than those of this version."""
    error: CassetteError | None = None
    """Why it cannot be read as the cassette that it begins as."""


@dataclass(frozen=True, slots=True)
class SecretScan:
    """Scans files by some rules."""

    rules: RedactionRules
    finder: SecretFinder
    """Finds what the rules find, and known secrets."""

    def scan_file(self, file: str, content: bytes) -> FileScan:
        """Scan a file; `file` is its path for the findings."""
        if not is_cassette_content(content):
            return FileScan(tuple(self._scan_bytes(file, content)))
        try:
            cassette = parse_cassette(file, content)
        except CassetteError as error:
            return FileScan(tuple(self._scan_bytes(file, content)), is_cassette=True, error=error)
        # One search finds all that is not in pieces, except in messages that are base64 here.
        may_have_secrets = b'"base64"' in content or bool(self.finder.find(content))
        return FileScan(
            tuple(self.scan_cassette(cassette, may_have_secrets=may_have_secrets)),
            is_cassette=True,
            has_older_rules=has_older_rules(cassette.meta.redaction_rules_version),
        )

    def scan_cassette(
        self, cassette: Cassette, *, may_have_secrets: bool = True
    ) -> Iterator[SecretFinding]:
        """The secrets in a cassette.

        Without `may_have_secrets`, there are none but in names of fields and in joined texts.
        """
        for part in _parts(cassette):
            if part.rule:
                yield _finding(cassette.file, part.line, part.place, part.rule, part.data)
            elif may_have_secrets:
                yield from self._scan_data(cassette.file, part)
        finder = self.finder if may_have_secrets else NO_REDACTION.finder()
        yield from self._scan_request_body(cassette.file, cassette.request, finder)
        yield from self._scan_response_body(cassette, finder)

    def _scan_bytes(self, file: str, content: bytes) -> Iterator[SecretFinding]:
        line, offset = 1, 0
        for span in self.finder.find(content):
            line += content.count(b"\n", offset, span.begin)
            offset = span.begin
            yield _finding(file, line, "", span.rule, content[span.begin : span.end])

    def _scan_data(self, file: str, part: _Part) -> Iterator[SecretFinding]:
        for span in self.finder.find(part.data):
            secret = part.data[span.begin : span.end]
            yield _finding(file, part.line, part.place, span.rule, secret)

    def _scan_request_body(
        self, file: str, request: StoredRequest, finder: SecretFinder
    ) -> Iterator[SecretFinding]:
        place = "request.body"
        if self.rules.has_field_names and is_form(request):
            for part in _parameter_parts(place, request.body.decode("latin-1")):
                if part.rule:
                    yield _finding(file, part.line, part.place, part.rule, part.data)
                else:
                    yield from self._scan_data(file, part)
            return
        spans = finder.find(request.body)
        field_rules = replace(self.rules, patterns=(), expressions=())
        if not spans and redact_request(request, field_rules) is request:
            return
        redaction = TextRedaction(self.finder, self.rules, is_request=True)
        found = set[str]()
        for each in self._scan_messages("whole", [request.body], redaction):
            found.add(each.rule)
            yield _finding(
                file, _REQUEST_LINE, place + _path_suffix(each.path), each.rule, each.secret
            )
        for span in spans:
            if span.rule not in found:
                secret = request.body[span.begin : span.end]
                yield _finding(file, _REQUEST_LINE, place, span.rule, secret)

    def _scan_response_body(
        self, cassette: Cassette, finder: SecretFinder
    ) -> Iterator[SecretFinding]:
        file, messages, body = cassette.file, cassette.framed_messages, cassette.response_body
        redaction = TextRedaction(self.finder, self.rules, is_request=False)
        is_single = len(messages) == 1 and not self.rules.paths and not self.rules.fields
        if is_single and not finder.find(body):
            return  # there is nothing to join
        counted_texts = cassette_dialect(cassette).counted_texts
        by_secret: dict[tuple[JsonPath, str, bytes], list[_TextFinding]] = {}
        for each in self._scan_messages(cassette.codec_name, messages, redaction, counted_texts):
            by_secret.setdefault((each.path, each.rule, each.secret), []).append(each)
        found: set[tuple[str, int]] = set()
        for (path, rule, secret), same in by_secret.items():
            found |= {(rule, number) for each in same for number in each.messages}
            line = _FIRST_MESSAGE_LINE + same[0].messages[0]
            yield _finding(file, line, _response_place(path, same), rule, secret)
        starts = [0, *accumulate(map(len, messages))]
        for span in finder.find(body):
            number = bisect_right(starts, span.begin) - 1
            if (span.rule, number) not in found:
                line, secret = _FIRST_MESSAGE_LINE + number, body[span.begin : span.end]
                yield _finding(file, line, f"response message {number + 1}", span.rule, secret)

    def _scan_messages(
        self,
        codec: str,
        messages: Sequence[bytes],
        redaction: TextRedaction,
        counted_texts: Collection[tuple[str, str]] = (),
    ) -> Iterator[_TextFinding]:
        texts = [editable_text(codec, message) for message in messages]
        select_values = redaction.select_values if self.rules.paths else None
        for each in find_field_changes(
            texts, redaction.find_changes, counted_texts, select_values, redaction.is_clean
        ):
            pieces = [(piece.message_index, piece.text[part.begin : part.end])
                      for piece, part in each.piece_changes()]  # fmt: skip
            secret = "".join(text for _, text in pieces).encode("utf-8", "surrogatepass")
            numbers = tuple(number for number, _ in pieces)
            if numbers:
                yield _TextFinding(each.path, each.change.rule or FIELD_RULE, secret, numbers)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a cassette that is no body."""

    line: int
    place: str
    data: bytes = field(repr=False)
    rule: str = ""
    """The rule by which all of it is a secret; empty for data that is to be searched."""


def _parts(cassette: Cassette) -> Iterator[_Part]:
    request, head = cassette.request, cassette.response_head
    yield _Part(1, "line 1", encode_line(cassette.meta))
    yield _Part(_REQUEST_LINE, "request.path", request.path.encode("latin-1", "replace"))
    yield from _parameter_parts("request.query", request.query)
    yield from _header_parts(_REQUEST_LINE, "request", request.headers, storable_request_headers)
    yield from _header_parts(_HEAD_LINE, "response", head.headers, storable_response_headers)
    yield _Part(_HEAD_LINE, "response.reason", head.reason.encode("latin-1", "replace"))


def _parameter_parts(place: str, query: str) -> Iterator[_Part]:
    """The parts of a query or a form."""
    redacted = redact_query(query)[0]
    if redacted != query:
        for pair in QUERY_SEPARATOR.split(query)[::2]:
            name, _, value = pair.partition("=")
            if redact_query(pair)[0] != pair:
                secret = value.encode("latin-1", "replace")
                yield _Part(_REQUEST_LINE, f"{place} {name}", secret, FIELD_NAMES_RULE)
    yield _Part(_REQUEST_LINE, place, redacted.encode("latin-1", "replace"))


def _header_parts(
    line: int, place: str, headers: Headers, storable: Callable[[Headers], Headers]
) -> Iterator[_Part]:
    are_stored = storable(headers) == headers
    for name, value in headers:
        is_stored = are_stored or any(kept == value for _, kept in storable(((name, value),)))
        rule = "" if is_stored else HEADERS_RULE
        yield _Part(line, f"{place}.headers {name}", value.encode("latin-1", "replace"), rule)


@dataclass(frozen=True, slots=True)
class _TextFinding:
    """A secret in the texts of messages."""

    path: JsonPath
    rule: str
    secret: bytes = field(repr=False)
    messages: tuple[int, ...]
    """The indexes of the messages that it spans, from 0."""


def is_cassette_content(content: bytes) -> bool:
    """Whether a file begins as a cassette does."""
    return _CASSETTE_START.match(content) is not None


def _response_place(path: JsonPath, same: Sequence[_TextFinding]) -> str:
    first, last = same[0].messages[0] + 1, same[0].messages[-1] + 1
    suffix = _path_suffix(path)
    if first != last:
        return f"response text{suffix}, messages {first} to {last}"
    more = f", and {len(same) - 1} more" if len(same) > 1 else ""
    return f"response message {first}{suffix}{more}"


def _path_suffix(path: JsonPath) -> str:
    """A JSONPath as the end of a place; empty for a text that is no JSON."""
    steps = (f"[{step}]" if isinstance(step, int) else json_path_step(step) for step in path)
    text = f" ${''.join(steps)}" if path else ""
    return text.encode("utf-8", "replace").decode()  # a name may have lone surrogates


def _finding(file: str, line: int, place: str, rule: str, secret: bytes) -> SecretFinding:
    text = secret.decode("utf-8", "replace")
    start = text[: min(_SHOWN_CHARS, len(text) // _SHOWN_CHARS)]
    return SecretFinding(file, line, place, rule, start, len(text))
