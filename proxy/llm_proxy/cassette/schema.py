"""The exact schema of the cassette lines that are not messages.

`msgspec` refuses unknown fields and wrong types, and names the path of the mistake; `refusal`
says it in words.
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
from llm_proxy.cassette.model import End, Meta, StoredRequest
from llm_proxy.errors import printable
from llm_proxy.exact_json import parse_exact
from llm_proxy.exchange import Ending, Framing, ResponseHead

LONGEST_MS = 6 * 60 * 60 * 1000.0
"""The latest offset that is believed: a hostile file cannot make a replay wait for years."""

LONGEST_WORD = 1000
"""Characters of a text in line 1."""
MOST_RULES = 100
"""Rules that line 1 names."""

Offset = Annotated[float, Is(ge=0, le=LONGEST_MS)]
Count = Annotated[int, Is(ge=0)]
_HTTP_NAME: Final = r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z"
_VALUE: Final = "^[\\t\\x20-\\x7e\\x80-\\xff]*\\Z"
_HEX64: Final = r"^[0-9a-f]{64}\Z"
_WORD: Final = r"^[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]*\Z"
_TARGET: Final = r"^[\x21-\x7e]*\Z"
_PATH: Final = r"^/[\x21-\x7e]*\Z"

Name = Annotated[str, Is(pattern=_HTTP_NAME)]
Value = Annotated[str, Is(pattern=_VALUE)]
Pair = tuple[Name, Value]
Hex64 = Annotated[str, Is(pattern=_HEX64)]
Word = Annotated[str, Is(pattern=_WORD, max_length=LONGEST_WORD)]
"""Text that goes to a terminal: no control characters, no marks that turn its direction."""
Marks = float | list[tuple[int, float]]
"""The reads that begin in a message: the ms of one at its first byte, or [bytes, ms] of each."""
Target = Annotated[str, Is(pattern=_TARGET)]
"""What stands in a request line: printable, and without a space."""
Path = Annotated[str, Is(pattern=_PATH)]
"""One that begins with a slash: put behind an address, it cannot make it another host's."""

_WORDS: Final = MappingProxyType(
    {
        repr(_HTTP_NAME): "an HTTP token: letters, digits and marks, without a space",
        repr(_VALUE): "text that HTTP can have in a head: Latin-1, without control characters",
        repr(_HEX64): "64 hexadecimal digits in lower case",
        repr(_WORD): "text without control characters and marks that turn its direction",
        repr(_TARGET): "printable ASCII without a space",
        repr(_PATH): "a slash, and printable ASCII without a space behind it",
    }
)
"""What a pattern means."""
_KNOWN: Final = MappingProxyType(
    {"framing": ", ".join(get_args(Framing)), "ending": ", ".join(Ending)}
)
"""What a field with few possible values may be."""


def refusal_sentence_of(error: msgspec.ValidationError, root: str = "") -> str:
    """Why a line is refused, in one sentence; `root` is what the checked value is called."""
    return validation_messages.refusal_sentence(str(error), _KNOWN, _WORDS, root)


class _LineStruct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A line, or what stands in it."""


def is_line1_word(text: str) -> bool:
    """Whether a text can stand in line 1 as it is."""
    try:
        msgspec.convert(text.encode().decode(), Word)
    except (UnicodeEncodeError, msgspec.ValidationError):
        return False
    return True


class MetaLine(_LineStruct, frozen=True):
    """Line 1."""

    cassette: int
    tool: Word
    recorded: Word
    dialect: Word
    provider: Word
    model: Word
    session: Word
    key: Hex64
    key_rules: Count
    redaction_rules: Count
    rules: Annotated[tuple[Word, ...], Is(max_length=MOST_RULES)] = ()

    @classmethod
    def from_value(cls, meta: Meta) -> MetaLine:
        """The line for this value."""
        return cls(
            meta.format, meta.tool, meta.recorded, meta.dialect, meta.provider,
            printable(meta.model, 1000),  # a client may call a model anything
            meta.session, meta.key, meta.key_rules, meta.redaction_rules,
            meta.rules,
        )  # fmt: skip

    def to_value(self) -> Meta:
        """The value of this line."""
        return Meta(
            self.tool, self.recorded, self.dialect, self.provider, self.model, self.session,
            self.key, self.key_rules, self.redaction_rules, self.rules, self.cassette,
        )  # fmt: skip


class RequestFields(_LineStruct, frozen=True):
    """The request: its body as JSON where it is JSON, whatever its spacing was."""

    method: Name
    path: Path
    headers: tuple[Pair, ...]
    query: Target = ""
    redacted: Count = 0
    json: Any = UNSET
    text: str | UnsetType = UNSET
    base64: str | UnsetType = UNSET


class RequestLine(_LineStruct, frozen=True):
    """Line 2."""

    request: RequestFields

    @classmethod
    def from_value(cls, request: StoredRequest) -> RequestLine:
        """The line for this value."""
        return cls(
            RequestFields(
                method=request.method,
                path=request.path,
                query=request.query,
                headers=request.headers,
                redacted=request.redacted,
                **_decode_body(request.body),
            )
        )

    def to_value(self) -> StoredRequest:
        """The value of this line; raises `ValueError` for a body that cannot be restored."""
        request_fields = self.request
        spelled = {
            name: value
            for name, value in (
                ("json", request_fields.json),
                ("text", request_fields.text),
                ("base64", request_fields.base64),
            )
            if value is not UNSET
        }
        body = decode_message(spelled) if spelled else b""
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

    at: Offset
    status: Annotated[int, Is(ge=200, le=999)]
    reason: Value
    framing: Framing
    codec: str
    headers: tuple[Pair, ...]
    length: Count | None = None
    decoded: Word = ""


class HeadLine(_LineStruct, frozen=True):
    """Line 3."""

    response: HeadFields

    @classmethod
    def from_value(cls, head: ResponseHead, at: float, codec: str, decoded: str) -> HeadLine:
        """The line for these values."""
        return cls(
            HeadFields(
                at=rounded_offset_ms(at),
                status=head.status,
                reason=head.reason,
                framing=head.framing,
                codec=codec,
                headers=head.headers,
                length=head.length,
                decoded=decoded,
            )
        )

    def to_value(self) -> ResponseHead:
        """The head alone."""
        head_fields = self.response
        return ResponseHead(
            head_fields.status,
            head_fields.reason,
            head_fields.headers,
            head_fields.framing,
            head_fields.length,
        )


class EndFields(_LineStruct, frozen=True):
    """How it ended."""

    ending: Ending
    at: Offset
    bytes: Count
    sha256: Hex64
    redacted: Count = 0


class EndLine(_LineStruct, frozen=True):
    """The last line."""

    end: EndFields

    @classmethod
    def from_value(cls, end: End) -> EndLine:
        """The line for this value."""
        return cls(
            EndFields(end.ending, rounded_offset_ms(end.at_ms), end.size, end.sha256, end.redacted)
        )

    def to_value(self) -> End:
        """The value of this line."""
        end_fields = self.end
        return End(
            end_fields.ending,
            end_fields.at,
            end_fields.bytes,
            end_fields.sha256,
            end_fields.redacted,
        )


def prepare_msgspec(*kinds: Any) -> None:
    """Build what msgspec needs to read these, before two threads do so at once and crash it."""
    for kind in kinds:
        msgspec.json.Decoder(kind)


def encode_line(line: _LineStruct | dict[str, Any]) -> bytes:
    """One line, its LF included."""
    fields = line if isinstance(line, dict) else msgspec.to_builtins(line, builtin_types=_KEPT)
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


_KEPT = (orjson.Fragment,)


def rounded_offset_ms(at: float) -> float:
    """An offset in ms as it is written: to the hundredth, finer than any network."""
    return round(at, 2)


def _decode_body(body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    parsed = parse_exact(body)
    if parsed is not None:
        with suppress(TypeError):  # nested too deep to be written again
            return {"json": orjson.Fragment(orjson.dumps(parsed[0]))}
    fields = encode_message(body)
    return fields if "text" in fields or "base64" in fields else {"text": body.decode()}


prepare_msgspec(MetaLine, RequestLine, HeadLine, EndLine, Marks)
