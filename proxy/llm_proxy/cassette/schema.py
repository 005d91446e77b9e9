"""The exact schema of the cassette lines that are not messages.

`msgspec` rejects unknown fields and wrong types and names the path; `validation_messages` turns
its errors into sentences.
"""

from __future__ import annotations

from contextlib import suppress
from types import MappingProxyType
from typing import Annotated, Any, Final, get_args

import msgspec
import orjson
from msgspec import UNSET, UnsetType
from msgspec import Meta as Is

from llm_proxy.cassette import validation_messages
from llm_proxy.cassette.framed_message_json import decode_message, encode_message
from llm_proxy.cassette.model import CassetteEnd, CassetteMeta, StoredRequest
from llm_proxy.errors import printable_excerpt
from llm_proxy.exact_json import parse_exact
from llm_proxy.exchange import Ending, Framing, ResponseHead

MAX_OFFSET_MS = 6 * 60 * 60 * 1000.0
"""The largest valid offset: so a hostile file cannot make a replay wait for years."""

MAX_TEXT_CHARS = 1000
"""The most characters of a text in line 1."""
MAX_RULES = 100
"""The most match rules in line 1."""

OffsetMs = Annotated[float, Is(ge=0, le=MAX_OFFSET_MS)]
Count = Annotated[int, Is(ge=0)]
_HTTP_NAME: Final = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z"
_HEADER_VALUE: Final = "^[\\t\\x20-\\x7e\\x80-\\xff]*\\Z"
_HEX64: Final = r"^[0-9a-f]{64}\Z"
_TERMINAL_SAFE: Final = r"^[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]*\Z"
_PRINTABLE_ASCII: Final = r"^[\x21-\x7e]*\Z"
_PATH: Final = r"^/[\x21-\x7e]*\Z"

HttpToken = Annotated[str, Is(pattern=_HTTP_NAME)]
HeaderValue = Annotated[str, Is(pattern=_HEADER_VALUE)]
HeaderPair = tuple[HttpToken, HeaderValue]
Hex64 = Annotated[str, Is(pattern=_HEX64)]
TerminalSafeText = Annotated[str, Is(pattern=_TERMINAL_SAFE, max_length=MAX_TEXT_CHARS)]
"""Text that may be printed on a terminal: no control characters, no direction marks."""
ReadStarts = float | list[tuple[int, float]]
"""The reads that begin in a message: ms of one at its first byte, or [byte offset, ms] of each."""
PrintableAscii = Annotated[str, Is(pattern=_PRINTABLE_ASCII)]
"""Part of a request line: printable ASCII without a space."""
RequestPath = Annotated[str, Is(pattern=_PATH)]
"""A path with a leading slash: appended to a base URL, it cannot change the host."""

_PATTERN_DESCRIPTIONS: Final = MappingProxyType(
    {
        repr(_HTTP_NAME): "an HTTP token: letters, digits and marks, without a space",
        repr(
            _HEADER_VALUE
        ): "text that HTTP can have in a head: Latin-1, without control characters",
        repr(_HEX64): "64 hexadecimal digits in lower case",
        repr(_TERMINAL_SAFE): "text without control characters and marks that turn its direction",
        repr(_PRINTABLE_ASCII): "printable ASCII without a space",
        repr(_PATH): "a slash, and printable ASCII without a space behind it",
    }
)
"""Descriptions of the patterns, by their `repr`."""
_ALLOWED_VALUES: Final = MappingProxyType(
    {"framing": ", ".join(get_args(Framing)), "ending": ", ".join(Ending)}
)
"""The values of enum fields, by the field's name."""


def validation_error_sentence(error: msgspec.ValidationError, root: str = "") -> str:
    """The error of a line in one sentence; `root` names the checked value."""
    return validation_messages.validation_sentence(
        str(error), _ALLOWED_VALUES, _PATTERN_DESCRIPTIONS, root
    )


class _LineStruct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of the lines and of the objects in them."""


def is_valid_meta_text(text: str) -> bool:
    """Whether a text is valid in line 1."""
    try:
        msgspec.convert(text.encode().decode(), TerminalSafeText)
    except (UnicodeEncodeError, msgspec.ValidationError):
        return False
    return True


class MetaLine(_LineStruct, frozen=True):
    """Line 1: the metadata."""

    cassette: int
    tool: TerminalSafeText
    recorded: TerminalSafeText
    dialect: TerminalSafeText
    provider: TerminalSafeText
    model: TerminalSafeText
    session: TerminalSafeText
    key: Hex64
    key_rules: Count
    redaction_rules: Count
    rules: Annotated[tuple[TerminalSafeText, ...], Is(max_length=MAX_RULES)] = ()

    @classmethod
    def from_cassette_meta(cls, meta: CassetteMeta) -> MetaLine:
        """The line for this value."""
        return cls(
            meta.format_version, meta.recording_tool, meta.recorded_at, meta.dialect, meta.provider,
            printable_excerpt(meta.model, 1000),  # a client may call a model anything
            meta.session, meta.key, meta.key_rules_version, meta.redaction_rules_version,
            meta.match_rules,
        )  # fmt: skip

    def to_cassette_meta(self) -> CassetteMeta:
        """The value of this line."""
        return CassetteMeta(
            self.tool, self.recorded, self.dialect, self.provider, self.model, self.session,
            self.key, self.key_rules, self.redaction_rules, self.rules, self.cassette,
        )  # fmt: skip


class RequestFields(_LineStruct, frozen=True):
    """The request; its body is stored as JSON if it is JSON, whatever its spacing."""

    method: HttpToken
    path: RequestPath
    headers: tuple[HeaderPair, ...]
    query: PrintableAscii = ""
    redacted: Count = 0
    json: Any = UNSET
    text: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET


class RequestLine(_LineStruct, frozen=True):
    """Line 2: the request."""

    request: RequestFields

    @classmethod
    def from_stored_request(cls, request: StoredRequest) -> RequestLine:
        """The line for this value."""
        return cls(
            RequestFields(
                method=request.method,
                path=request.path,
                query=request.query,
                headers=request.headers,
                redacted=request.redacted_count,
                **_request_body_fields(request.body),
            )
        )

    def to_stored_request(self) -> StoredRequest:
        """The value of this line.  Raises `ValueError` for a body that cannot be decoded."""
        request_fields = self.request
        body_fields = {
            name: value
            for name, value in (
                ("json", request_fields.json),
                ("text", request_fields.text),
                ("base64", request_fields.base64),
            )
            if value is not UNSET
        }
        body = decode_message(body_fields) if body_fields else b""
        return StoredRequest(
            request_fields.method,
            request_fields.path,
            request_fields.query,
            request_fields.headers,
            body,
            request_fields.redacted,
        )


class HeadFields(_LineStruct, frozen=True):
    """The head of the response."""

    at: OffsetMs
    status: Annotated[int, Is(ge=200, le=999)]
    reason: HeaderValue
    framing: Framing
    codec: str
    headers: tuple[HeaderPair, ...]
    length: Count | None = None
    decoded: TerminalSafeText = ""


class HeadLine(_LineStruct, frozen=True):
    """Line 3: the response head."""

    response: HeadFields

    @classmethod
    def from_response_head(
        cls, head: ResponseHead, at_ms: float, codec: str, content_coding: str
    ) -> HeadLine:
        """The line for these values."""
        return cls(
            HeadFields(
                at=rounded_offset_ms(at_ms),
                status=head.status,
                reason=head.reason,
                framing=head.framing,
                codec=codec,
                headers=head.headers,
                length=head.content_length,
                decoded=content_coding,
            )
        )

    def to_response_head(self) -> ResponseHead:
        """The response head, without `at`, codec and content coding."""
        head_fields = self.response
        return ResponseHead(
            head_fields.status,
            head_fields.reason,
            head_fields.headers,
            head_fields.framing,
            head_fields.length,
        )


class EndFields(_LineStruct, frozen=True):
    """How and when the response ended."""

    ending: Ending
    at: OffsetMs
    bytes: Count
    sha256: Hex64
    redacted: Count = 0


class EndLine(_LineStruct, frozen=True):
    """The last line."""

    end: EndFields

    @classmethod
    def from_cassette_end(cls, end: CassetteEnd) -> EndLine:
        """The line for this value."""
        return cls(
            EndFields(
                end.ending,
                rounded_offset_ms(end.at_ms),
                end.size_bytes,
                end.sha256,
                end.redacted_count,
            )
        )

    def to_cassette_end(self) -> CassetteEnd:
        """The value of this line."""
        end_fields = self.end
        return CassetteEnd(
            end_fields.ending,
            end_fields.at,
            end_fields.bytes,
            end_fields.sha256,
            end_fields.redacted,
        )


def prebuild_msgspec_types(*types: Any) -> None:
    """Build msgspec's type information now: two threads that build it at once crash."""
    for kind in types:
        msgspec.json.Decoder(kind)


def encode_line(line: _LineStruct | dict[str, Any]) -> bytes:
    """One line as JSON, with its LF."""
    document = (
        line
        if isinstance(line, dict)
        else msgspec.to_builtins(line, builtin_types=_UNCONVERTED_TYPES)
    )
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)


_UNCONVERTED_TYPES = (orjson.Fragment,)


def rounded_offset_ms(at_ms: float) -> float:
    """An offset in ms, rounded to 0.01 ms, which is finer than any network."""
    return round(at_ms, 2)


def _request_body_fields(body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    parsed = parse_exact(body)
    if parsed is not None:
        with suppress(TypeError):  # nested too deep to be serialised
            return {"json": orjson.Fragment(orjson.dumps(parsed[0]))}
    fields = encode_message(body)
    return fields if "text" in fields or "base64" in fields else {"text": body.decode()}


prebuild_msgspec_types(MetaLine, RequestLine, HeadLine, EndLine, ReadStarts)
