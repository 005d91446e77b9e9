"""Parses YAML as recording libraries write it.

Plain scalars stay text unless all of those libraries quote such text, so `1e3`, `no` and dates are
text.

Of the objects that VCR.py writes, those that hold text, bytes or lists are decoded by the names of
their tags.  An exchange with another object becomes an `UnsupportedYamlObject`.
"""

from __future__ import annotations

import re
from base64 import b64decode
from contextlib import suppress
from typing import Any, Final, NoReturn

import yaml
from yaml.events import CollectionStartEvent, DocumentStartEvent, Event, NodeEvent, ScalarEvent

from llm_proxy.errors import printable_excerpt
from llm_proxy.importing.source import UnreadableFile, UnsupportedYamlObject
from llm_proxy.yaml_composer import (
    CORE_CONSTANTS,
    DEFAULT_LOADER,
    UnreadableDocument,
    YamlComposer,
    start_mark,
)

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


def parse_yaml(data: bytes) -> Any:
    """The document of a file.  Raises `UnreadableFile`, also for a second document."""
    composer = _RecordingComposer()
    documents: list[Any] = []
    try:
        events = yaml.parse(data, Loader=DEFAULT_LOADER)
        for event in events:
            if isinstance(event, DocumentStartEvent):
                if documents:
                    _raise_unreadable(event, "a second document begins, and only one is read")
                documents.append(composer.compose(events))
    except UnreadableDocument as error:
        raise UnreadableFile(f"line {error.mark.line}: {error.message}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = 1 if mark is None else mark.line + 1
        problem = getattr(error, "problem", None) or getattr(error, "reason", None)
        raise UnreadableFile(
            f"line {line}: it is no valid YAML: "
            f"{printable_excerpt(str(problem or 'it breaks off'), 200)}"
        ) from None
    return documents[0] if documents else None


class _RecordingComposer(YamlComposer[Any]):
    """Makes JSON values and bytes; replaces an exchange that holds another object."""

    max_size = MAX_VALUE_BYTES
    too_large_message = f"its values take more than {MAX_VALUE_BYTES} bytes, repetitions included"

    def size_of(self, event: NodeEvent) -> int:
        return _NODE_OVERHEAD_BYTES + len(getattr(event, "value", ""))

    def alias_error(self, name: str, *, is_recursive: bool) -> str:
        return f"*{printable_excerpt(name, 80)} repeats nothing that ends before it"

    def make_scalar(self, event: ScalarEvent) -> Any:
        tag, text = event.tag, event.value
        if tag in _BINARY_TAGS:
            try:
                return b64decode("".join(text.split()), validate=True)
            except ValueError:
                _raise_unreadable(event, "this is no base64")
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
            _raise_unreadable(event, "a name must be text, and this is none")
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
            f"the tag {name} stands for an object of a program, which is not made"
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
