"""Parses a file, which may be gzipped: JSON, JSON Lines, or YAML as recording libraries write it.

Plain scalars of YAML stay text unless all of those libraries quote such text, so `1e3`, `no` and
dates are text.

Of the objects that VCR.py writes, those that hold text, bytes or lists are decoded by the names of
their tags.  An exchange with another object becomes an `UnsupportedYamlObject`.
"""

from __future__ import annotations

import re
import zlib
from base64 import b64decode
from contextlib import suppress
from io import BytesIO
from typing import Any, Final, NoReturn

import orjson
import yaml
from yaml.events import CollectionStartEvent, DocumentStartEvent, Event, NodeEvent, ScalarEvent

from llm_proxy.errors import printable_excerpt
from llm_proxy.importing.source import ParsedFile, UnreadableFile, UnsupportedYamlObject
from llm_proxy.yaml_composer import (
    CORE_CONSTANTS,
    DEFAULT_LOADER,
    UnreadableDocument,
    YamlComposer,
    start_mark,
)

MAX_FILE_BYTES: Final = 128 * 1024 * 1024
"""Larger files are refused, also those that decompress to more."""

MAX_VALUES: Final = 8_000_000
"""Commas of a JSON file: each may separate two values of some 100 bytes of memory."""

_GZIP_MAGIC: Final = b"\x1f\x8b"
_MAX_GZIP_MEMBERS: Final = 100
"""Limit of concatenated gzip members in one file."""
_JSON_STARTS: Final = (b"{", b"[")
_YAML_LINE_STARTS: Final = (
    b"interactions:",
    b"http_interactions:",
    b"version:",
    b"recorded_with:",
    b"request:",
)
"""Starts of lines in YAML that may be a recording."""
_YAML_START: Final = re.compile(rb"---|[%#]|(?:- +)*[^\r\n:]{1,200}:(?:[ \t\r\n]|$)")
"""Starts of YAML, but not of a trace or a flow whose bodies may hold lines of YAML."""
_BOM: Final = b"\xef\xbb\xbf"

MAX_VALUE_BYTES: Final = 256 * 1024 * 1024
"""Limit of the approximate bytes of a file's values, each alias counted in full."""

_NODE_OVERHEAD_BYTES: Final = 64
"""Bytes counted for a value beside its text."""
_INT: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,39})")
_FLOAT: Final = re.compile(r"[-+]?[0-9]{1,40}\.[0-9]{0,40}(?:[eE][-+][0-9]{1,4})?")
_EXCHANGE_LIST_DEPTH: Final = 2
"""A list of exchanges stands within fewer values."""
_TEXT_TAGS: Final = frozenset(
    ("!", "tag:yaml.org,2002:str", "tag:yaml.org,2002:python/unicode",
     "tag:yaml.org,2002:python/str")
)  # fmt: skip
_BINARY_TAGS: Final = frozenset(
    ("!binary", "tag:yaml.org,2002:binary", "tag:yaml.org,2002:python/bytes")
)
_COLLECTION_TAGS: Final = frozenset(
    ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:python/tuple",
     "tag:yaml.org,2002:python/list", "tag:yaml.org,2002:python/dict")
)  # fmt: skip
_OBJECT_TAG: Final = re.compile(
    r"tag:yaml\.org,2002:python/object/(?:new|apply):"
    r"(?:multidict|_io|io|builtins)\.(?:\w{1,99}\.){0,9}(?P<name>\w{1,99})"
)
"""Tags of objects that may be decoded; the last part of the name selects the decoder."""


def parse_file_content(data: bytes) -> ParsedFile:
    """Decompresses and parses a file.  Raises `UnreadableFile`."""
    data = gunzip(data)
    text = data.removeprefix(_BOM).lstrip()
    if text.startswith(_JSON_STARTS):
        if text.count(b",") > MAX_VALUES:
            raise UnreadableFile(f"the file has more than {MAX_VALUES:,} values; split it")
        return _parse_json(data, text)
    if _YAML_START.match(text) and may_be_yaml_recording(text):
        return ParsedFile(data, "yaml", parse_yaml(data))
    return ParsedFile(data, "bytes")


def gunzip(data: bytes) -> bytes:
    """The bytes decompressed if they are gzip.  Raises `UnreadableFile`."""
    if len(data) > MAX_FILE_BYTES:
        raise UnreadableFile(f"the file is larger than {MAX_FILE_BYTES:,} bytes")
    if not data.startswith(_GZIP_MAGIC):
        return data
    members: list[bytes] = []
    remaining_bytes = MAX_FILE_BYTES
    while data.startswith(_GZIP_MAGIC):  # concatenated members are one file
        plain, data = _gunzip_member(data, remaining_bytes)
        members.append(plain)
        remaining_bytes -= len(plain)
        if len(members) > _MAX_GZIP_MEMBERS:
            raise UnreadableFile(f"the file has more than {_MAX_GZIP_MEMBERS} gzip members")
    if data.strip(b"\0"):
        raise UnreadableFile("unexpected data after the gzip data")
    return b"".join(members)


def _gunzip_member(data: bytes, max_bytes: int) -> tuple[bytes, bytes]:
    """The content of the first gzip member, and the bytes after it.  Raises `UnreadableFile`."""
    decompressor = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        plain = decompressor.decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise UnreadableFile(f"invalid gzip data: {error}") from None
    if len(plain) > max_bytes:
        raise UnreadableFile(f"the file decompresses to more than {MAX_FILE_BYTES:,} bytes")
    if not decompressor.eof:
        raise UnreadableFile("the gzip data is truncated")
    return plain, decompressor.unused_data


def may_be_yaml_recording(text: bytes) -> bool:
    """Whether one of the first lines (in 4096 bytes) starts as in a YAML recording."""
    return any(
        line.lstrip(b" -").startswith(_YAML_LINE_STARTS) for line in text[:4096].splitlines()
    )


def _parse_json(data: bytes, text: bytes) -> ParsedFile:
    try:
        return ParsedFile(data, "json", orjson.loads(text))
    except ValueError as error:
        lines = _parse_json_lines(text)
        if lines is not None:
            return ParsedFile(data, "jsonl", lines)
        if may_be_yaml_recording(text):
            return ParsedFile(data, "yaml", parse_yaml(data))
        raise UnreadableFile(f"invalid JSON: {error}") from None


def _parse_json_lines(text: bytes) -> list[Any] | None:
    """The documents of JSON Lines; None where the first line is no document.

    Raises `UnreadableFile` where a later line is none.
    """
    documents: list[Any] = []
    for number, line in enumerate(BytesIO(text), 1):
        if line.strip():
            try:
                documents.append(orjson.loads(line))
            except ValueError as error:
                if number == 1:
                    return None
                raise UnreadableFile(f"line {number}: invalid JSON: {error}") from None
    return documents


def parse_yaml(data: bytes) -> Any:
    """The document of a file.  Raises `UnreadableFile`, also for a second document."""
    composer = _RecordingComposer()
    documents: list[Any] = []
    try:
        events = yaml.parse(data, Loader=DEFAULT_LOADER)
        for event in events:
            if isinstance(event, DocumentStartEvent):
                if documents:
                    _raise_unreadable(
                        event,
                        "the file contains more than one YAML document; save each in its own file",
                    )
                documents.append(composer.compose(events))
    except UnreadableDocument as error:
        raise UnreadableFile(f"line {error.mark.line}: {error.message}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = 1 if mark is None else mark.line + 1
        problem = getattr(error, "problem", None) or getattr(error, "reason", None)
        raise UnreadableFile(
            f"line {line}: invalid YAML: "
            f"{printable_excerpt(str(problem or 'unexpected end of the file'), 200)}"
        ) from None
    return documents[0] if documents else None


class _RecordingComposer(YamlComposer[Any]):
    """Makes JSON values and bytes; replaces an exchange that holds another object."""

    max_size = MAX_VALUE_BYTES
    too_large_message = (
        f"the values exceed {MAX_VALUE_BYTES >> 20} MiB after YAML aliases are resolved"
    )

    def size_of(self, event: NodeEvent) -> int:
        return _NODE_OVERHEAD_BYTES + len(getattr(event, "value", ""))

    def alias_error(self, name: str, *, is_recursive: bool) -> str:
        return f"alias *{printable_excerpt(name, 80)} does not refer to an earlier anchor"

    def make_scalar(self, event: ScalarEvent) -> Any:
        tag, text = event.tag, event.value
        if tag in _BINARY_TAGS:
            try:
                return b64decode("".join(text.split()), validate=True)
            except ValueError:
                _raise_unreadable(event, "invalid base64")
        if tag is not None and tag not in _TEXT_TAGS:
            return self._unsupported_object(event, tag)
        if tag is not None or not event.implicit[0]:
            return text
        if text in CORE_CONSTANTS:
            return CORE_CONSTANTS[text]
        if _INT.fullmatch(text):
            return int(text)
        return float(text) if _FLOAT.fullmatch(text) else text

    def member_name(
        self, event: Event, value: Any, members: dict[str, tuple[Event, Any]]
    ) -> str | None:
        if isinstance(value, UnsupportedYamlObject):
            members[""] = (event, value)
            return None
        if isinstance(value, list | dict | bytes):
            _raise_unreadable(event, "a field name is not text")
        return str(value)

    def make_collection(
        self, event: CollectionStartEvent, content: list[Any] | dict[str, tuple[Event, Any]]
    ) -> Any:
        """A collection with an unsupported object is one itself, unless it lists exchanges."""
        value: Any
        if isinstance(content, list):
            value, is_exchange_list = content, len(self.path) < _EXCHANGE_LIST_DEPTH
        else:
            value = {name: member for name, (_, member) in content.items()}
            is_exchange_list = False
        if not is_exchange_list:
            for item in value.values() if isinstance(value, dict) else value:
                if isinstance(item, UnsupportedYamlObject):
                    return item
        if event.tag is None or event.tag in _COLLECTION_TAGS:
            return value
        arguments, state = value, None
        if isinstance(value, dict) and not value.keys() - {"args", "state"}:
            arguments, state = value.get("args", []), value.get("state")
        tag_match = _OBJECT_TAG.fullmatch(event.tag)
        decoded = _decode_object(tag_match["name"], arguments, state) if tag_match else None
        if decoded is not None:
            return decoded
        return self._unsupported_object(event, event.tag)

    def _unsupported_object(self, event: Event, tag: str) -> UnsupportedYamlObject:
        """Raises `UnreadableFile` outside of an exchange."""
        name = printable_excerpt(tag.replace("tag:yaml.org,2002:", "!!"), 80)
        reason = (
            f"line {start_mark(event).line}: "
            f"the YAML tag {name} is for a language-specific object, which is not supported"
        )
        if not any(isinstance(step, int) for step in self.path[:_EXCHANGE_LIST_DEPTH]):
            raise UnreadableFile(reason)
        return UnsupportedYamlObject(reason)


def _decode_object(class_name: str, arguments: Any, state: Any) -> str | bytes | list[Any] | None:
    """The text, bytes or list of an object that VCR.py writes; None for another object."""
    match class_name, arguments, state:
        case "istr" | "MultiDict" | "CIMultiDict", [str() | list() as value], _:
            return value
        case "istr" | "MultiDict" | "CIMultiDict", [], _:
            return ""
        case "BytesIO", _, [bytes() as value, *_]:  # some request bodies
            return value
        case "BytesIO", _, [str() as value, *_]:
            return value.encode("utf-8", "surrogatepass")
        case "bytearray", [], _:
            return b""
        case "bytearray", [bytes() as value], _:
            return value
        case "bytearray", [str() as text, "latin-1"], _:
            with suppress(UnicodeEncodeError):
                return text.encode("latin-1")
        case "iter", [list() as pieces], _ if all(isinstance(piece, bytes) for piece in pieces):
            return b"".join(pieces)
        case _:
            pass
    return None


def _raise_unreadable(event: Event, reason: str) -> NoReturn:
    raise UnreadableDocument(start_mark(event), reason)
