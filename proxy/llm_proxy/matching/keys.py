"""Keys: a request's document, the rules that normalise it, and the hash of the result.

Two requests with the same meaning to a provider have equal documents, whatever SDK sent them: the
order of keys, spaces and the spelling of numbers do not count, nor do the fields that a dialect
lists as volatile.  Everything else counts: the order of messages, `stream`, tools.  Headers are
left out except the few that a dialect lists; credentials in the query are left out.

Rules remove further differences before the key is computed, the hash that finds the takes of a
request.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, Literal
from urllib.parse import parse_qsl, quote, unquote, urlencode

import orjson

from llm_proxy import dialects, exact_json
from llm_proxy.cassette import CassetteMeta, StoredRequest
from llm_proxy.dialects import Dialect
from llm_proxy.exchange import Headers, Request, header_value
from llm_proxy.redaction import (
    DEFAULT_REDACTION,
    RedactionRules,
    is_credential_parameter,
    redact_request,
)
from llm_proxy.turns import Json

KEY_RULES_VERSION: Final = 2
"""The version of the key computation, stored in every cassette: this module, and the fields that
dialects list as volatile."""

BodyKind = Literal["json", "form", "text"]
"""The kind of a body: a JSON value, the fields of a form, or anything else."""

_MAX_DEPTH: Final = 100
"""The deepest nesting that is normalised; a deeper document is treated as text."""
_ENCODED_SLASH: Final = re.compile("%2F", re.IGNORECASE)
_SAFE_PATH_CHARACTERS: Final = "/~:@!$&'()*+,;="
_PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9_./~:@!$&'()*+,;=-]*")
"""A path without characters that may be percent-encoded in several ways."""
_HEADER_PARAMETER: Final = re.compile(
    r"""\s*;\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))"""
)
"""A parameter of a header; its value may be quoted."""
_MAX_PART_TEXT_BYTES: Final = 64 * 1024
"""The longest part that is kept as text; a longer one is represented by its hash."""


@dataclass(frozen=True, slots=True)
class KeyDocument:
    """The canonical form of a request, from which its key is computed."""

    method: str
    provider: str
    path: str
    """With normalised percent-encoding."""
    query: str
    """Normalised parameters, sorted by name, without credentials."""
    headers: Headers
    """The headers that the dialect includes in the key, sorted by name."""
    body_kind: BodyKind
    body: Json
    """A JSON value; a text with invalid bytes as lone surrogates; or form fields as a list of
    objects."""
    dialect: Dialect

    def canonical_body(self) -> bytes:
        """The body in canonical bytes: JSON with sorted keys, or the text."""
        if self.body_kind == "text":
            return str(self.body).encode("utf-8", "surrogateescape")
        return orjson.dumps(self.body, option=orjson.OPT_SORT_KEYS)

    def compute_key(self) -> str:
        """The key: the SHA-256 of the canonical form, 64 hexadecimal digits.

        Rules that do not change a document do not change its key: their names are not hashed.
        """
        head = (
            f"llm-proxy key {KEY_RULES_VERSION}",
            self.method,
            self.provider,
            self.path,
            self.query,
            *(f"{name}: {value}" for name, value in self.headers),
            self.body_kind,
        )
        digest = hashlib.sha256(
            "".join(f"{part}\n" for part in head).encode("utf-8", "surrogateescape")
        )
        digest.update(self.canonical_body())
        return digest.hexdigest()


def key_document(provider: str, request: StoredRequest) -> KeyDocument:
    """The document of a redacted request to a provider."""
    dialect = dialects.dialect_of_request(
        Request(request.method, request.path, request.query, request.headers, b"")
    )
    kind, body = _key_body(request)
    if kind == "json":
        for path in dialect.volatile_json_paths:
            _remove_at_path(body, path.removeprefix("$.").split("."))
    return KeyDocument(
        method=request.method.upper(),
        provider=provider,
        path=normalize_path(request.path),
        query=normalize_query(request.query),
        headers=_key_headers(dialect, request.headers),
        body_kind=kind,
        body=body,
        dialect=dialect,
    )


def normalize_path(path: str) -> str:
    """The path with normalised percent-encoding; an encoded slash stays encoded."""
    if _PLAIN_PATH.fullmatch(path):
        return path
    return "%2F".join(
        quote(
            unquote(part, errors="surrogateescape"),
            safe=_SAFE_PATH_CHARACTERS,
            errors="surrogateescape",
        )
        for part in _ENCODED_SLASH.split(path)
    )


def normalize_query(query: str) -> str:
    """The query with normalised encoding, sorted by name; repeats keep their order.

    Credentials are left out: a client may send its key in a header instead.  Other secret
    parameters count by name only, because their values are redacted.
    """
    if not query:
        return ""
    pairs = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
    public_pairs = [pair for pair in pairs if not is_credential_parameter(pair[0])]
    return urlencode(sorted(public_pairs, key=itemgetter(0)), errors="surrogateescape")


def _key_headers(dialect: Dialect, headers: Headers) -> Headers:
    """The headers of the key, each once; comma-separated lists are sorted."""
    kept: list[tuple[str, str]] = []
    for name in sorted(dialect.cassette_key_headers):
        values = [value for key, value in headers if key.lower() == name]
        list_items = {word.strip() for value in values for word in value.split(",")} - {""}
        if list_items:
            kept.append((name, ",".join(sorted(list_items))))
    return tuple(kept)


def _key_body(request: StoredRequest) -> tuple[BodyKind, Json]:
    if (parsed := exact_json.parse_exact(request.body)) is not None:
        with suppress(ValueError):  # nested too deep
            return "json", _normalize_numbers(parsed[0], _MAX_DEPTH)
    content_type = header_value(request.headers, "content-type") or ""
    fields = parse_form(content_type, request.body)
    if fields is not None:
        return "form", fields
    return "text", request.body.decode("utf-8", "surrogateescape")


def _normalize_numbers(value: Json, depth: int) -> Json:
    """`value` with integral floats as integers: 1.0 becomes 1."""
    if depth == 0:
        raise ValueError("nested too deep")
    match value:
        case dict():
            return {name: _normalize_numbers(item, depth - 1) for name, item in value.items()}
        case list():
            return [_normalize_numbers(item, depth - 1) for item in value]
        case float() if value.is_integer() and abs(value) < 2**53:
            return int(value)
        case _:
            return value


def _remove_at_path(value: Json, path: list[str]) -> None:
    """Remove the value at a path in place; `name[*]` stands for each item of a list.

    An item that has only this member and a type is a reference, and keeps it.
    """
    name, *rest = path
    if not isinstance(value, dict):
        return
    if not rest:
        value.pop(name, None)
    elif name.endswith("[*]"):
        items = value.get(name.removesuffix("[*]"))
        for item in items if isinstance(items, list) else ():
            if isinstance(item, dict) and item.keys() - {*rest, "type"}:
                _remove_at_path(item, rest)
    else:
        _remove_at_path(value.get(name), rest)


def parse_form(content_type: str, body: bytes) -> list[Json] | None:
    """The fields of a form in order; None if the body is no form, or malformed.

    Each is an object: `name`, `filename` and `type` if present, other `headers`, and its `value`;
    for binary content `sha256` and the number of `bytes` instead.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type == "application/x-www-form-urlencoded":
        try:
            pairs = parse_qsl(
                body.decode(), keep_blank_values=True, strict_parsing=True, errors="strict"
            )
        except ValueError:
            return None
        return [{"name": name, "value": value} for name, value in pairs]
    boundary = _header_parameters(content_type)[0].get("boundary")
    if not media_type.startswith("multipart/") or not boundary:
        return None
    # Preamble and epilogue are ignored.
    delimiter = b"\r\n--" + boundary.encode("latin-1", "replace")
    _, *raw_parts = (b"\r\n" + body).split(delimiter)
    if len(raw_parts) < 2 or not raw_parts[-1].startswith(b"--"):  # at least one part, and the end
        return None
    parts = [_parse_part(part) for part in raw_parts[:-1]]
    return None if None in parts else parts


def _header_parameters(value: str) -> tuple[dict[str, str], bool]:
    """The parameters of a header value by name, and whether that is the whole value.

    It is not if a name is repeated, or if a part could not be parsed.
    """
    fields: dict[str, str] = {}
    offset = value.find(";")
    is_fully_parsed = True
    while offset >= 0 and (match := _HEADER_PARAMETER.match(value, offset)) is not None:
        name, quoted, plain = match.groups()
        is_fully_parsed = is_fully_parsed and name.lower() not in fields
        fields.setdefault(name.lower(), plain if quoted is None else quoted)
        offset = match.end()
    return fields, is_fully_parsed and (offset < 0 or not value[offset:].strip())


def _parse_part(part: bytes) -> Json:
    """One part as an object; None if it has no head."""
    padding, line_end, rest = part.partition(b"\r\n")
    if padding.strip(b" \t") or not line_end:
        return None
    head, blank, content = (b"\r\n" + rest).partition(b"\r\n\r\n")
    if not blank:
        return None
    try:
        head_text = head.decode()
    except UnicodeDecodeError:  # old browsers send Latin-1
        head_text = head.decode("latin-1")
    fields: dict[str, Json] = {}
    other_headers: dict[str, Json] = {}
    for line in head_text.split("\r\n")[1:]:
        key, _, value = line.partition(":")
        value = value.strip()
        match key.strip().lower():
            case "content-disposition":
                parameters, is_fully_parsed = _header_parameters(value)
                fields |= parameters
                if not is_fully_parsed or value.partition(";")[0].strip().lower() != "form-data":
                    fields["disposition"] = value
            case "content-type":
                fields["type"] = value
            case "content-length":  # redundant: the content counts
                pass
            case other:
                other_headers[other] = value
    if other_headers:
        fields["headers"] = other_headers
    if len(content) <= _MAX_PART_TEXT_BYTES:
        with suppress(UnicodeDecodeError):  # binary
            return {**fields, "value": content.decode("utf-8")}
    return {**fields, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


@dataclass(frozen=True, slots=True)
class NormalizedDocument:
    """A document after rules were applied."""

    document: KeyDocument
    value_by_alias: Mapping[str, str] = field(default_factory=dict)
    """The replaced values by alias, such as `<uuid-1>`.  Two requests with the same key have the
    same aliases, so their values can be mapped to each other."""


ApplyRule = Callable[[KeyDocument], NormalizedDocument]
"""Returns the document without the differences that the rule ignores: equal for documents that
differ only in them.  Idempotent."""


@dataclass(frozen=True, slots=True)
class NormaliserRule:
    """A normaliser with its argument, or a preset."""

    name: str
    version: int
    """Changes whenever the same document would be normalised differently."""
    normalize_document: ApplyRule
    argument: str = ""
    preset_rules: tuple[NormaliserRule, ...] = ()
    """The rules that a preset combines; empty for a normaliser."""

    def __str__(self) -> str:
        """The form stored in cassettes: `uuids@1`, `ignore@1=$.metadata`."""
        argument = f"={self.argument}" if self.argument else ""
        return f"{self.name}@{self.version}{argument}"

    @property
    def option_text(self) -> str:
        """The form of the command line: `uuids`, `ignore=$.metadata`."""
        return f"{self.name}={self.argument}" if self.argument else self.name


@dataclass(frozen=True, slots=True)
class NormaliserDefinition:
    """A normaliser before its argument is known."""

    name: str
    version: int
    """Incremented whenever it normalises a document differently than before."""
    make_document_normaliser: Callable[[str], ApplyRule]
    """Returns the rule's function for an argument; raises `UsageError` for an invalid one."""
    argument_description: str = ""
    """What its argument is, such as `a JSONPath`; empty if it takes none."""
    example_argument: str = ""
    """An example of an argument."""

    def make_rule(self, argument: str = "") -> NormaliserRule:
        """The rule with an argument.  Raises `UsageError` for an invalid one."""
        function = self.make_document_normaliser(argument)
        return NormaliserRule(self.name, self.version, function, argument)


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The match rules of a run, in the order in which they are applied."""

    rules: tuple[NormaliserRule, ...] = ()
    is_exact: bool = False
    """Whether `--match exact` disables rules: then no other setting adds any."""
    redaction: RedactionRules = DEFAULT_REDACTION
    """What is redacted before the key is computed."""

    @property
    def rule_texts(self) -> tuple[str, ...]:
        """The rules as stored in line 1 of a cassette."""
        return (*map(str, self.rules), *self.redaction.texts)

    def as_exact(self) -> RuleSet:
        """The same redaction without rules, and `is_exact` keeps others from being added."""
        return RuleSet(is_exact=True, redaction=self.redaction)

    def normalize_document(self, document: KeyDocument) -> NormalizedDocument:
        """The document after all rules."""
        value_by_alias: dict[str, str] = {}
        for rule in self.rules:
            normalized = rule.normalize_document(document)
            document = normalized.document
            value_by_alias |= normalized.value_by_alias
        return NormalizedDocument(document, value_by_alias)


NO_RULES: Final = RuleSet()
"""No rules: keys are exact."""


def normalized_document(
    provider: str, request: StoredRequest, rules: RuleSet = NO_RULES
) -> NormalizedDocument:
    """The document of a stored request after the rules, which include the redaction."""
    request = redact_request(request, rules.redaction)
    return rules.normalize_document(key_document(provider, request))


def request_key(provider: str, request: StoredRequest, rules: RuleSet = NO_RULES) -> str:
    """The key of a stored request: 64 hexadecimal digits."""
    return normalized_document(provider, request, rules).document.compute_key()


def is_keyed_by(meta: CassetteMeta, rules: RuleSet) -> bool:
    """Whether a file was keyed by these rules, so that the key in its name is valid."""
    return meta.key_rules_version == KEY_RULES_VERSION and meta.match_rules == rules.rule_texts


def colliding_rules(
    requests: Sequence[tuple[str, StoredRequest]], rules: RuleSet
) -> tuple[NormaliserRule, ...]:
    """The rules that make the keys of these (provider, request) pairs equal.

    A rule counts if the keys differ without it.  All rules if no single one is the cause; none if
    the keys are equal without any rules.
    """

    def have_different_keys(applied_rules: tuple[NormaliserRule, ...]) -> bool:
        rule_set = RuleSet(applied_rules)
        return len({request_key(provider, request, rule_set) for provider, request in requests}) > 1

    if not have_different_keys(()):
        return ()
    colliding = tuple(
        rule
        for rule in rules.rules
        if have_different_keys(tuple(other for other in rules.rules if other is not rule))
    )
    return colliding or rules.rules
