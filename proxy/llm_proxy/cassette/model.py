"""The lines of a cassette that are not messages: their values and their exact schema.

msgspec rejects unknown fields and wrong types and names the path.  Its errors become messages:
``Expected `int`, got `str` - at `$.response.status` `` becomes "response.status: expected an
integer, got a string".
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Final, get_args

import msgspec
import orjson
from msgspec import UNSET, UnsetType
from msgspec import Meta as Is

from llm_proxy.cassette.framed_message_json import decode_message, encode_message
from llm_proxy.errors import printable_excerpt
from llm_proxy.exact_json import parse_exact
from llm_proxy.exchange import Ending, Framing, Read, Request, ResponseHead

FORMAT_VERSION: Final = 1
"""The format version that this tool writes, and the newest that it reads."""

DEFAULT_SESSION: Final = "default"
"""The session of a request that names none."""

MAX_OFFSET_MS = 6 * 60 * 60 * 1000.0
"""The largest valid offset: so a hostile file cannot make a replay wait for years."""

MAX_TEXT_CHARS = 1000
"""The most characters of a text in line 1."""
MAX_RULES = 100
"""The most match rules in line 1."""

_HTTP_NAME: Final = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z"
_HEADER_VALUE: Final = "^[\\t\\x20-\\x7e\\x80-\\xff]*\\Z"
_HEX64: Final = r"^[0-9a-f]{64}\Z"
_TERMINAL_SAFE: Final = r"^[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]*\Z"
_PRINTABLE_ASCII: Final = r"^[\x21-\x7e]*\Z"
_PATH: Final = r"^/[\x21-\x7e]*\Z"

OffsetMs = Annotated[float, Is(ge=0, le=MAX_OFFSET_MS)]
Count = Annotated[int, Is(ge=0)]
HeaderValue = Annotated[str, Is(pattern=_HEADER_VALUE)]
HttpToken = Annotated[str, Is(pattern=_HTTP_NAME)]
HeaderPairs = tuple[tuple[HttpToken, HeaderValue], ...]
Hex64 = Annotated[str, Is(pattern=_HEX64)]
TerminalSafeText = Annotated[str, Is(pattern=_TERMINAL_SAFE, max_length=MAX_TEXT_CHARS)]
"""Text that may be printed on a terminal: no control characters, no direction marks."""
PrintableAscii = Annotated[str, Is(pattern=_PRINTABLE_ASCII)]
"""Part of a request line: printable ASCII without a space."""
RequestPath = Annotated[str, Is(pattern=_PATH)]
"""A path with a leading slash: appended to a base URL, it cannot change the host."""
ReadStarts = float | list[tuple[int, float]]
"""The reads that begin in a message: ms of one at its first byte, or [byte offset, ms] of each."""

_PATTERN_DESCRIPTIONS: Final = MappingProxyType(
    {
        repr(_HTTP_NAME): "an HTTP token (letters, digits and punctuation, no spaces)",
        repr(_HEADER_VALUE): "Latin-1 text without control characters",
        repr(_HEX64): "64 lowercase hexadecimal digits",
        repr(_TERMINAL_SAFE): "text without control characters or bidirectional marks",
        repr(_PRINTABLE_ASCII): "printable ASCII without spaces",
        repr(_PATH): "printable ASCII without spaces that starts with a slash",
    }
)
"""Descriptions of the patterns, by their `repr`."""
_ALLOWED_VALUES: Final = MappingProxyType(
    {"framing": ", ".join(get_args(Framing)), "ending": ", ".join(Ending)}
)
"""The values of enum fields, by the field's name."""

_MESSAGE_AND_PATH: Final = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)
_WRONG_FIELD: Final = re.compile(
    r"Object (?:(missing required)|contains unknown) field `(.*)`", re.DOTALL
)
_INVALID_ENUM_VALUE: Final = re.compile(r"Invalid enum value (.*)", re.DOTALL)
_WRONG_LENGTH: Final = re.compile(r"Expected `array` of length (\d+), got (\d+)")
_WRONG_TYPE: Final = re.compile(r"Expected `(.+)`, got `(\w+)`")
_PATTERN_MISMATCH: Final = re.compile(r"Expected `str` matching regex (.*)", re.DOTALL)
_OUT_OF_RANGE: Final = re.compile(r"Expected `\w+` (?:of (length) )?(>=|<=) (\S+)")

_TYPE_DESCRIPTIONS: Final = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "a boolean",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_MAX_SHOWN_CHARS: Final = 40
"""The most characters of a value that a message quotes."""


class _JsonObject(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base of the lines and of the objects in them."""


class CassetteMeta(
    _JsonObject,
    frozen=True,
    tag_field="cassette",
    tag=FORMAT_VERSION,
    rename={
        "recording_tool": "tool",
        "recorded_at": "recorded",
        "key_rules_version": "key_rules",
        "redaction_rules_version": "redaction_rules",
        "match_rules": "rules",
    },
):
    """Line 1: the metadata."""

    recording_tool: TerminalSafeText
    recorded_at: TerminalSafeText
    """UTC, ISO 8601 with milliseconds."""
    dialect: TerminalSafeText
    provider: TerminalSafeText
    model: TerminalSafeText
    """Empty if the dialect knows none."""
    session: TerminalSafeText
    key: Hex64
    key_rules_version: Count
    redaction_rules_version: Count
    match_rules: Annotated[tuple[TerminalSafeText, ...], Is(max_length=MAX_RULES)] = ()
    """The operator's match rules for the key, with their versions: `uuids@1`."""


def is_valid_meta_text(text: str) -> bool:
    """Whether a text is valid in line 1."""
    try:
        msgspec.convert(text.encode().decode(), TerminalSafeText)
    except (UnicodeEncodeError, msgspec.ValidationError):
        return False
    return True


def printable_model(name: str) -> str:
    """A model's name as line 1 can hold it: a client may call a model anything."""
    return printable_excerpt(name, MAX_TEXT_CHARS)


@dataclass(frozen=True, slots=True)
class StoredRequest(Request):
    """Line 2: the request after redaction."""

    redacted_count: int = 0
    """The number of values that were redacted."""


class _RequestObject(_JsonObject, frozen=True):
    """The request; its body is stored as JSON if it is JSON, whatever its spacing."""

    method: HttpToken
    path: RequestPath
    headers: HeaderPairs
    query: PrintableAscii = ""
    redacted: Count = 0
    json: Any = UNSET
    text: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET


class RequestLine(_JsonObject, frozen=True):
    """Line 2 as it is read."""

    request: _RequestObject

    def to_stored_request(self) -> StoredRequest:
        """The value of this line.  Raises `ValueError` for a body that cannot be decoded."""
        request = self.request
        candidates = {"json": request.json, "text": request.text, "base64": request.base64}
        body = {name: value for name, value in candidates.items() if value is not UNSET}
        return StoredRequest(
            request.method,
            request.path,
            request.query,
            request.headers,
            decode_message(body) if body else b"",
            request.redacted,
        )


def request_line(request: StoredRequest) -> dict[str, Any]:
    """Line 2 as it is written."""
    fields: dict[str, Any] = {
        "method": request.method,
        "path": request.path,
        "headers": request.headers,
    }
    if request.query:
        fields["query"] = request.query
    if request.redacted_count:
        fields["redacted"] = request.redacted_count
    return {"request": fields | _request_body_fields(request.body)}


def _request_body_fields(body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    parsed = parse_exact(body)
    if parsed is not None:
        with suppress(TypeError):  # nested too deep to be serialised
            return {"json": orjson.Fragment(orjson.dumps(parsed[0]))}
    fields = encode_message(body)
    return fields if "text" in fields or "base64" in fields else {"text": body.decode()}


class StoredHead(
    _JsonObject,
    frozen=True,
    rename={"at_ms": "at", "content_length": "length", "content_coding": "decoded"},
):
    """The response head, with what the recording adds to it."""

    at_ms: OffsetMs
    """ms since the request was read in full."""
    status: Annotated[int, Is(ge=200, le=999)]
    reason: HeaderValue
    framing: Framing
    codec: str
    """The codec that splits the body into messages: a name of `llm_proxy.framing.CODECS`."""
    headers: HeaderPairs
    content_length: Count | None = None
    content_coding: TerminalSafeText = ""
    """The `Content-Encoding` that was removed before storing the response; empty if none."""

    @classmethod
    def from_response_head(
        cls, head: ResponseHead, at_ms: float, codec: str, content_coding: str = ""
    ) -> StoredHead:
        """The stored form of these values."""
        return cls(
            rounded_offset_ms(at_ms), head.status, head.reason, head.framing, codec, head.headers,
            head.content_length, content_coding,
        )  # fmt: skip

    def to_response_head(self) -> ResponseHead:
        """The response head alone."""
        return ResponseHead(
            self.status, self.reason, self.headers, self.framing, self.content_length
        )


class HeadLine(_JsonObject, frozen=True):
    """Line 3: the response head."""

    response: StoredHead


class CassetteEnd(
    _JsonObject,
    frozen=True,
    rename={"at_ms": "at", "size_bytes": "bytes", "redacted_count": "redacted"},
):
    """How and when the response ended."""

    ending: Ending
    at_ms: OffsetMs
    """ms since the request was read in full."""
    size_bytes: Count
    """The size of the stored body."""
    sha256: Hex64
    redacted_count: Count = 0
    """The number of secrets that were replaced in the response."""


class EndLine(_JsonObject, frozen=True):
    """The last line."""

    end: CassetteEnd


@dataclass(frozen=True, slots=True)
class Cassette:
    """One stored exchange."""

    file: str
    """The path of the file, for messages."""
    meta: CassetteMeta
    request: StoredRequest
    response_head: ResponseHead
    response_head_at_ms: float
    """ms since the request was read in full."""
    codec_name: str
    """The codec that split the body into messages: a name of `llm_proxy.framing.CODECS`."""
    content_coding: str
    """The `Content-Encoding` that was removed before storing the response; empty if none."""
    framed_messages: tuple[bytes, ...]
    reads: tuple[Read, ...]
    response_end: CassetteEnd

    @property
    def response_body(self) -> bytes:
        """The stored body: all reads joined."""
        return b"".join(read.received_bytes for read in self.reads)


def encode_line(line: msgspec.Struct | dict[str, Any]) -> bytes:
    """One line as JSON, with its LF."""
    return orjson.dumps(line, default=msgspec.to_builtins, option=orjson.OPT_APPEND_NEWLINE)


def rounded_offset_ms(at_ms: float) -> float:
    """An offset in ms, rounded to 0.01 ms, which is finer than any network."""
    return round(at_ms, 2)


def sha256_hex(body: bytes) -> str:
    """The SHA-256 of a body in hexadecimal, as in the last line."""
    return hashlib.sha256(body).hexdigest()


def validation_error_sentence(error: msgspec.ValidationError, root: str = "") -> str:
    """The error of a line as a message; `root` names the checked value."""
    match = _MESSAGE_AND_PATH.fullmatch(str(error))
    problem, path = (match["what"], match["path"] or "") if match else (str(error), "")
    name = (root + path).removeprefix(".")
    if (field := _WRONG_FIELD.fullmatch(problem)) is not None:
        member = f"{name}.{field[2]}".removeprefix(".")
        return f"{member} is {'missing' if field[1] else 'an unknown field'}"
    expectation = f"expected {_expectation(name.rpartition('.')[2], problem)}"
    return f"{name}: {expectation}" if name else expectation


def _expectation(field: str, message: str) -> str:
    if (value := _INVALID_ENUM_VALUE.fullmatch(message)) is not None:
        shown = value[1] if len(value[1]) <= _MAX_SHOWN_CHARS else value[1][:_MAX_SHOWN_CHARS] + "…"
        return f"one of {_ALLOWED_VALUES.get(field, '')}; got {shown}"
    if (length := _WRONG_LENGTH.fullmatch(message)) is not None:
        return f"a list of {length[1]} values, got {length[2]}"
    if (wrong := _WRONG_TYPE.fullmatch(message)) is not None:
        expected = " or ".join(_TYPE_DESCRIPTIONS.get(kind, kind) for kind in wrong[1].split(" | "))
        actual = (
            "a fraction"
            if wrong.groups() == ("int", "float")
            else _TYPE_DESCRIPTIONS.get(wrong[2], "")
        )
        return f"{expected}, got {actual or wrong[2]}"
    if (pattern := _PATTERN_MISMATCH.fullmatch(message)) is not None:
        return _PATTERN_DESCRIPTIONS.get(pattern[1], "a different format")
    if (limit := _OUT_OF_RANGE.fullmatch(message)) is not None:
        bound = "at least" if limit[2] == ">=" else "at most"
        number = limit[3].removesuffix(".0")
        return (
            f"a string of {bound} {number} characters"
            if limit[1]
            else f"a number of {bound} {number}"
        )
    return message


def prebuild_msgspec_types(*types: Any) -> None:
    """Build msgspec's type information now: two threads that build it at once crash."""
    for kind in types:
        msgspec.json.Decoder(kind)


prebuild_msgspec_types(CassetteMeta, RequestLine, HeadLine, EndLine, ReadStarts)
