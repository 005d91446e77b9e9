"""Redacts documents: a request, and the response of a finished cassette.

In a finished cassette, the pieces of every streamed text are joined: a secret may be spread over
messages.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec

from llm_proxy.cassette import Cassette, StoredRequest
from llm_proxy.cassette_edits import edit_cassette, edit_message_texts, message_text_edits
from llm_proxy.display import json_path_step
from llm_proxy.errors import SecretNotReplaced
from llm_proxy.exchange import header_value
from llm_proxy.framing import message_edits
from llm_proxy.framing.message_edits import ByteEdit
from llm_proxy.message_texts import (
    TextChange,
    apply_text_changes,
    is_json_container,
    json_strings,
    parse_json_document,
)
from llm_proxy.redaction.credentials import has_secret_shape, is_dummy_credential
from llm_proxy.redaction.finder import KnownSecret, SecretFinder
from llm_proxy.redaction.headers import redact_query
from llm_proxy.redaction.names import body_field_kind
from llm_proxy.redaction.placeholders import (
    CLIENT_PLACEHOLDER,
    OPERATOR_PLACEHOLDER,
    PLACEHOLDER_PATTERN,
    rule_placeholder,
)
from llm_proxy.redaction.rules import (
    DEFAULT_REDACTION,
    FIELD_NAMES_RULE,
    FIELD_RULE,
    NO_REDACTION,
    RedactionRules,
)
from llm_proxy.redaction.stream import Redactor
from llm_proxy.turns import Json

_ANY_FORM: Final = re.compile(rb"(?i)x-www-form-urlencoded|multipart/")
"""What line 2 of a cassette contains if the body of the request is a form."""
_URLENCODED_FORM: Final = "application/x-www-form-urlencoded"
_MAX_JSON_DEPTH: Final = 3
"""The deepest nesting of JSON within JSON strings that is searched."""
_COPIED_TOKENS: Final = re.compile(
    r"""(?<!\\)"(?:logprobs|logprobsResult|prompt_logprobs)"\s*:\s*(?=[{\[])"""
    r"""|(?<!\\)"words"\s*:\s*(?=\[\s*\{\s*"word"\s*:)"""
)
"""Members that repeat a text in tokens, or in the words of a transcription."""
_KEYED_SECRETS: Final = MappingProxyType(
    {
        CLIENT_PLACEHOLDER: "a client credential",
        OPERATOR_PLACEHOLDER: "a secret from the environment",
    }
)
_MAX_STEPS: Final = 500_000
"""Values of a document that the JSONPaths of rules may visit."""
_MIN_AMBIGUOUS_CHARS: Final = 16
"""The fewest characters of a secret in a field whose name alone does not decide."""
_FIELD_WITH_TEXT: Final = (
    rb"(?i)([a-z0-9_.-]*(?:keys?|secrets?|token|authorization|password|passwd|passphrase|passcode"
    rb"|pwd|cookie|credentials?|string|url|uri|auth|jwt|bearer))\\*\"\s*:\s*\\*[\"\[]"
    rb"|\\u00[2-7][0-9a-f][^\"]*\"\s*:"
)
"""A field with a text that may be a secret, also in JSON within a string, or an escaped name."""
_PART_OF_FORM: Final = re.compile(
    rb"\bname=\"?([\w.-]+)\"?[^\r\n]*\r?\n(?:[^\r\n]+\r?\n){0,9}\r?\n([^\r\n]+)"
)
"""A part of a multipart form: its name, and its value, which is one line."""
_ESCAPE: Final = (
    r"\\+u00[02-7][0-9A-Fa-f]|\\+x[02-7][0-9A-Fa-f]|\\+/|%[02-7][0-9A-Fa-f]"
    r"|&#[0-9]{1,7};|&#[xX][0-9A-Fa-f]{1,6};"
)
_CUT_ESCAPE: Final = (
    r"(?:\\+(?:u0{0,2}[0-7]?|x[0-7]?)?|%[0-7]?|&(?:#(?:[0-9]{0,7}|[xX][0-9A-Fa-f]{0,6}))?)?"
)
_END_OF_ESCAPE: Final = r"(?:#?[xX]?[0-9A-Fa-f]{0,6};)?"
_BASE64_CHAR: Final = rf"(?:[A-Za-z0-9+/=]|{_ESCAPE})"
_REST_OF_BLOCK: Final = (
    r"(?:[A-Za-z0-9+/=\\\s:,.()@<>%&#;]|-(?!----)){0,16384}?-----END[A-Z0-9 %]{1,40}-----"
    rf"|{_BASE64_CHAR}*(?:(?:[\r\n]|\\+[rn])+{_BASE64_CHAR}{{16,}})*"
)
_WHOLE_RULES: Final = "(?:google-project|aws-account|url-password|home-paths|email|phone)\\]"
"""The rules that know where a secret ends: what follows is none of it."""
_RESTS: Final = (
    (rf"\[redacted:(?P<rule>private-key)\](?P<cut>{_CUT_ESCAPE})\Z", _REST_OF_BLOCK),
    (
        rf"\[redacted:(?P<rule>(?!{_WHOLE_RULES})[a-z0-9-]{{1,60}})\](?P<cut>{_CUT_ESCAPE})\Z",
        rf"(?:[A-Za-z0-9_+/=-]|\.(?=[A-Za-z0-9])|{_ESCAPE})*",
    ),
    (r"5b72656461637465643a(?:[0-9a-f]{2})*5d[0-9A-Fa-f]?\Z", "[0-9A-Fa-f]*"),
    (
        r"(?:W3JlZGFjdGVkO|tyZWRhY3RlZD|bcmVkYWN0ZWQ6)[A-Za-z0-9+/_-]*={0,2}\Z",
        "[A-Za-z0-9+/_-]*={0,2}",
    ),
)
"""How a piece of a text ends in which a secret was found, in each encoding, and how the rest of
that secret begins the next piece."""
_ANY_PLACEHOLDER: Final = (
    r"\[redacted:|5b72656461637465643a|W3JlZGFjdGVkO|tyZWRhY3RlZD|bcmVkYWN0ZWQ6"
)
_WORD: Final = re.compile("(?:[A-Z]?[a-z]{1,15})?")
"""What may follow a secret by chance."""
_ENCODED_RULE: Final = "encoded-secret"
"""The rule of a rest whose placeholder is encoded."""
_MAX_PLACEHOLDER_CHARS: Final = 160
"""The most characters of a placeholder, in any encoding."""


@dataclass(frozen=True, slots=True)
class TextRedaction:
    """Finds what is replaced in the decoded texts of a document."""

    finder: SecretFinder
    rules: RedactionRules
    is_request: bool
    """Whether the names of secret fields count: in responses they may be the model's words."""
    removes_rests: bool = False
    """Whether the pieces were redacted one by one: then the rest of a secret may begin a piece."""
    _changes: dict[tuple[str, str], list[TextChange]] = field(default_factory=dict)
    """The changes of texts that were searched before: many repeat in every message."""

    @property
    def has_found(self) -> bool:
        """Whether any text had changes."""
        return any(self._changes.values())

    def find_changes(
        self, text: str, member: str, piece_starts: Sequence[int] = ()
    ) -> list[TextChange]:
        """The changes of a text, from left to right; `member` is the field that contains it.

        `piece_starts` are the offsets at which its pieces begin.
        """
        changes = self._changes.get((text, member))
        if changes is None:
            changes = self._changes[text, member] = self._find(text, member, 0)
        if not self.removes_rests:
            return changes
        rests = [
            change
            for change in _rests_of_secrets(text, piece_starts)
            if not any(each.begin < change.end and change.begin < each.end for each in changes)
        ]
        return sorted((*changes, *rests), key=lambda each: each.begin) if rests else changes

    def _find(self, text: str, member: str, depth: int) -> list[TextChange]:
        if (rule := self._field_rule(text, member)) is not None:
            return [TextChange(0, len(text), rule_placeholder(rule), rule)]
        if depth == _MAX_JSON_DEPTH or not text.lstrip().startswith(("{", "[")):
            return self._secrets(text)
        is_document = is_json_container(text)
        if not is_document and not self.is_request:
            return self._secrets(text)
        changes = [
            change
            for string in json_strings(text)
            for change in string.to_source_changes(
                self._find(string.value, string.member, depth + 1)
            )
        ]
        if is_document:
            return changes
        others = (
            change
            for change in self._secrets(text)  # outside of strings, in what is no document
            if not any(each.begin < change.end and change.begin < each.end for each in changes)
        )
        return sorted((*changes, *others), key=lambda change: change.begin)

    def _secrets(self, text: str) -> list[TextChange]:
        data = text.encode("utf-8", "surrogatepass")
        spans = self.finder.find(data)
        if spans and len(data) != len(text):  # offsets of bytes to offsets of characters
            changes: list[TextChange] = []
            byte_offset = char_offset = 0
            for span in spans:
                begin = char_offset + _char_count(data[byte_offset : span.begin])
                end = begin + _char_count(data[span.begin : span.end])
                changes.append(TextChange(begin, end, span.replacement.decode(), span.rule))
                byte_offset, char_offset = span.end, end
            return changes
        return [
            TextChange(span.begin, span.end, span.replacement.decode(), span.rule) for span in spans
        ]

    def _field_rule(self, text: str, member: str) -> str | None:
        """The rule by which the whole value of a field is replaced."""
        if not member or not text or PLACEHOLDER_PATTERN.search(text):
            return None
        if member in self.rules.fields:
            return FIELD_RULE
        if not (self.is_request and self.rules.has_field_names):
            return None
        match body_field_kind(member):
            case "secret" if not is_dummy_credential(text):
                return FIELD_NAMES_RULE
            case "ambiguous" if len(text) >= _MIN_AMBIGUOUS_CHARS and " " not in text:
                return (
                    FIELD_NAMES_RULE if has_secret_shape(text.encode("utf-8", "replace")) else None
                )
            case _:
                return None

    def is_clean(self, data: bytes) -> bool:
        """Whether data with any number of texts has nothing to replace."""
        return not (
            self.rules.fields
            or (self.is_request and self.rules.has_field_names)
            or _any_placeholder().search(data)
            or self.finder.find(data)
        )

    def select_values(self, document: Json) -> Mapping[tuple[str | int, ...], str]:
        """The values that the JSONPaths of the rules select: the placeholder by path."""
        from llm_proxy import json_paths  # noqa: PLC0415 # 0.03 s, only where a rule has a path

        budget = json_paths.StepBudget(_MAX_STEPS)
        placeholder = rule_placeholder(FIELD_RULE)
        return {
            match.location: placeholder
            for text in self.rules.paths
            for match in json_paths.find_nodes(json_paths.compile_path(text), document, budget)
        }


def _char_count(data: bytes) -> int:
    return len(data.decode("utf-8", "surrogatepass"))


def _rests_of_secrets(text: str, piece_starts: Sequence[int]) -> Iterator[TextChange]:
    """Removes what begins a piece and is the rest of a secret that was found in the one before."""
    if len(piece_starts) < 2 or re.search(_ANY_PLACEHOLDER, text) is None:
        return
    position = 0
    for start in piece_starts:
        if start < max(1, position):
            continue
        before = text[max(0, start - _MAX_PLACEHOLDER_CHARS) : start]
        for placeholder, rest in _RESTS:
            if (found := re.search(placeholder, before)) is not None:
                groups = found.groupdict()
                end_of_escape = re.compile(_END_OF_ESCAPE if groups.get("cut") else "")
                escape = end_of_escape.match(text, start)
                match = re.compile(rest).match(text, escape.end() if escape else start)
                rule = groups.get("rule")
                if match is not None and _WORD.fullmatch(match.group()) is None:
                    position = match.end()
                    yield TextChange(start, position, "", rule or _ENCODED_RULE)
                break


def may_be_redacted(line: bytes, rules: RedactionRules) -> bool:
    """Whether a rule may replace something in a request; `line` is line 2 of its cassette."""
    return bool(
        rules.fields
        or rules.paths
        or (rules.has_field_names and (_may_have_secret_field(line) or _ANY_FORM.search(line)))
        or rules.finder().find(line)
    )


def redact_request(request: StoredRequest, rules: RedactionRules) -> StoredRequest:
    """The request without what the rules replace; the same object if there is nothing."""
    redacted = redact_known(request, rules.finder())
    body, count = _redact_fields(redacted, rules)
    if count == 0:
        return redacted
    return replace(redacted, body=body, redacted_count=redacted.redacted_count + count)


def redact_known(request: StoredRequest, finder: SecretFinder) -> StoredRequest:
    """The request without what `finder` finds in it; the same object if there is nothing."""
    head = (request.path, request.query, *(value for _, value in request.headers))
    has_secret_in_head = finder.find("\n".join(head).encode("latin-1", "replace"))
    if not has_secret_in_head and not finder.find(request.body):  # as nearly always
        return request
    redactor = Redactor(finder)
    redacted = StoredRequest(
        method=request.method,
        path=redactor.redact_latin1(request.path),
        query=redactor.redact_latin1(request.query),
        headers=tuple((name, redactor.redact_latin1(value)) for name, value in request.headers),
        body=redactor.redact(request.body),
        redacted_count=request.redacted_count + redactor.replaced_count,
    )
    return redacted if redactor.replaced_count else request


def redact_text(
    text: str,
    known_secrets: Mapping[bytes, KnownSecret] = {},
    rules: RedactionRules = DEFAULT_REDACTION,
) -> str:
    """A text for the log or the journal without secrets."""
    redactor = Redactor(rules.finder(known_secrets))
    return redactor.redact(text.encode("utf-8", "replace")).decode()


def keyed_secret_places(stored: StoredRequest, get_key_body: Callable[[], Json]) -> Iterator[str]:
    """Where a stored request has placeholders of secrets that count for its key, as sentences.

    Other secrets are replaced before the key is computed.  `get_key_body` returns the part of the
    body that counts for the key: a JSON value, or the text of a body that is not JSON or is nested
    too deep.
    """
    for placeholder, kind in _KEYED_SECRETS.items():
        if placeholder in stored.path + stored.query or placeholder.encode() in stored.body:
            body = get_key_body()
            if isinstance(body, str):
                with suppress(ValueError):
                    body = cast("Json", parse_json_document(body))
            for name, value in (("path", stored.path), ("query", stored.query), ("$", body)):
                for path in _paths_with(value, placeholder, name):
                    yield f"the request contains {kind} at {path}"


def _paths_with(value: Json, placeholder: str, path: str) -> Iterator[str]:
    """The JSONPaths of the strings that contain a placeholder."""
    places = deque([(value, path)])  # no recursion: the client decides how deep it is nested
    while places:
        value, path = places.popleft()
        match value:
            case str() if placeholder in value:
                yield path
            case dict():
                places.extend((item, path + json_path_step(name)) for name, item in value.items())
            case list():
                places.extend((item, f"{path}[{index}]") for index, item in enumerate(value))
            case _:
                pass


def is_form(request: StoredRequest) -> bool:
    """Whether the body of a request is a form whose fields are written as in a query."""
    content_type = header_value(request.headers, "content-type") or ""
    return content_type.partition(";")[0].strip().lower() == _URLENCODED_FORM


def _redact_fields(request: StoredRequest, rules: RedactionRules) -> tuple[bytes, int]:
    """The body without the values of fields that the rules name, and their number."""
    body, count = request.body, 0
    if rules.has_field_names and is_form(request):
        text, count = redact_query(body.decode("latin-1"))
        return text.encode("latin-1"), count
    redaction = TextRedaction(NO_REDACTION.finder(), rules, is_request=True)
    if rules.paths:
        edits, count = message_text_edits(
            "whole", [body], lambda *_: [], select_values=redaction.select_values
        )
        body = message_edits.apply_edits(body, edits)
    if rules.fields or (rules.has_field_names and _may_have_secret_field(body)):
        # Without a parser: secrets are found in several documents, too, and in invalid ones.
        text = body.decode("utf-8", "surrogateescape")
        changes = [
            change
            for string in json_strings(text)
            if not string.is_member_name
            for change in string.to_source_changes(
                redaction.find_changes(string.value, string.member)
            )
        ]
        if changes:
            body = apply_text_changes(text, changes).encode("utf-8", "surrogateescape")
            count += len(changes)
    if _is_multipart(request):
        edits = list(_part_edits(body, redaction))
        body, count = message_edits.apply_edits(body, edits), count + len(edits)
    return body, count


def _is_multipart(request: StoredRequest) -> bool:
    content_type = header_value(request.headers, "content-type") or ""
    return content_type.lower().startswith("multipart/")


def _part_edits(body: bytes, redaction: TextRedaction) -> Iterator[ByteEdit]:
    """The edits of the secret fields in a multipart form."""
    for part in _PART_OF_FORM.finditer(body):
        text = part[2].decode("utf-8", "surrogateescape")
        for change in redaction.find_changes(text, part[1].decode()):
            if change.end == len(text) and change.begin == 0:
                yield ByteEdit(part.start(2), part.end(2), change.replacement.encode())


@dataclass(frozen=True, slots=True)
class ResponseRedaction:
    """Redacts finished cassettes: their joined texts."""

    rules: RedactionRules
    finder: SecretFinder
    """Finds what the rules and what is known of the request find."""
    follows_stream: bool = False
    """Whether the reads of the cassette were redacted as they arrived."""

    def redact(self, cassette: Cassette, counted_texts: Collection[tuple[str, str]]) -> Cassette:
        """The cassette without the secrets in its response; the same object if there are none.

        `counted_texts` are those of its dialect.  Raises `SecretNotReplaced`.
        """
        # Without a count, the model has written the placeholders.
        removes_rests = self.follows_stream and cassette.response_end.redacted_count > 0
        redacted, count, has_secrets = self._edit(
            cassette, counted_texts, removes_rests=removes_rests
        )
        was_redacted = (
            cassette.response_end.redacted_count and b"[redacted" in cassette.response_body
        )
        if was_redacted or redacted is not cassette:
            redacted = edit_message_texts(redacted, _copied_token_changes)
        if redacted is cassette and not has_secrets:
            return cassette
        if self._edit(redacted, counted_texts, removes_rests=False)[2]:
            raise SecretNotReplaced(
                "cannot replace a secret in the response; the recording is not stored"
            )
        end = redacted.response_end
        end = msgspec.structs.replace(end, redacted_count=end.redacted_count + count)
        return replace(redacted, response_end=end)

    def _edit(
        self,
        cassette: Cassette,
        counted_texts: Collection[tuple[str, str]],
        *,
        removes_rests: bool,
    ) -> tuple[Cassette, int, bool]:
        """The edited cassette, the number of replacements, and whether there was any secret."""
        redaction = TextRedaction(
            self.finder, self.rules, is_request=False, removes_rests=removes_rests
        )
        edited, count = edit_cassette(
            cassette,
            redaction.find_changes,
            counted_texts,
            redaction.select_values if self.rules.paths else None,
        )
        return edited, count, redaction.has_found or count > 0


def _copied_token_changes(text: str) -> list[TextChange]:
    """Changes to null of what repeats a text token by token, in a message's document."""
    changes: list[TextChange] = []
    for member in _COPIED_TOKENS.finditer(text):
        begin = member.end()
        if changes and begin < changes[-1].end:
            continue
        try:
            end = json.JSONDecoder().raw_decode(text, begin)[1]
        except (ValueError, RecursionError):  # it is cut, or nested too deep
            end = len(text)
        changes.append(TextChange(begin, end, "null"))
    return changes


def _may_have_secret_field(body: bytes) -> bool:
    fields = _field_with_text().finditer(body)
    return any(
        field[1] is None or body_field_kind(field[1].decode()) != "other" for field in fields
    )


@lru_cache(1)
def _any_placeholder() -> Any:
    import re2  # noqa: PLC0415 # 5 ms, only where something is redacted

    return re2.compile(_ANY_PLACEHOLDER.encode())


@lru_cache(1)
def _field_with_text() -> Any:
    import re2  # noqa: PLC0415 # 5 ms, only where something is redacted

    return re2.compile(_FIELD_WITH_TEXT)
