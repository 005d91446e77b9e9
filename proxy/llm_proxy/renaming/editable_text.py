"""The text of a message of a framing, and what a change of it means for the message's bytes."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import MappingProxyType
from typing import Final, Protocol

from llm_proxy.framing import eventstream, frame_edits
from llm_proxy.framing.frame_edits import Edit
from llm_proxy.renaming import json_text
from llm_proxy.renaming.change import Change

_DATA: Final = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|(?<=[\r\n]))data:[ ]?([^\r\n]*)")
_BEFORE: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*[\[,]?\s*")
_PACKED: Final = "bytes"
"""The member of a frame's payload that holds a model's own event, in base64."""


class Spelled(Protocol):
    """A text as it is spelled in a message."""

    @property
    def text(self) -> str:
        """The text: mostly a JSON document."""

    def edits(self, changes: Sequence[Change]) -> list[Edit]:
        """What these changes, which come from left to right, make of the message."""


@dataclass(frozen=True, slots=True)
class Lines:
    """A text that stands in a message as it is, on one line or several."""

    lines: tuple[tuple[int, str], ...]
    """Each with the place where it begins in the message."""

    @property
    def text(self) -> str:
        """The lines, joined as the framing has it."""
        return "\n".join(line for _, line in self.lines)

    def edits(self, changes: Sequence[Change]) -> list[Edit]:
        """One for each change: none goes beyond its line, for no JSON text does."""
        starts = [0, *accumulate(len(line) + 1 for _, line in self.lines)]
        made: list[Edit] = []
        for it in changes:
            row = bisect_right(starts, it.begin) - 1
            at, line = self.lines[row]
            begin, end = it.begin - starts[row], it.end - starts[row]
            made.append(Edit(at + _size(line[:begin]), at + _size(line[:end]), _bytes(it.new)))
        return made


@dataclass(frozen=True, slots=True)
class Framed:
    """The payload of a frame that knows its length."""

    frame: bytes
    begin: int
    text: str

    def edits(self, changes: Sequence[Change]) -> list[Edit]:
        """Those of the payload, with the lengths and checksums that they need."""
        inner = Lines(((self.begin, self.text),)).edits(changes)
        return frame_edits.fitted(self.frame, inner)


@dataclass(frozen=True, slots=True)
class Packed:
    """What a frame's payload holds in base64."""

    outer: Framed
    field: json_text.Token
    text: str

    def edits(self, changes: Sequence[Change]) -> list[Edit]:
        """One edit of all of the base64."""
        packed = b64encode(_bytes(applied(self.text, changes))).decode()
        whole = Change(0, len(self.field.value), packed)
        return self.outer.edits(self.field.raw([whole]))


def applied(text: str, changes: Iterable[Change]) -> str:
    """A text with these changes, which come from left to right."""
    pieces: list[str] = []
    at = 0
    for it in changes:
        pieces += [text[at : it.begin], it.new]
        at = it.end
    return "".join([*pieces, text[at:]])


def spelled(codec: str, message: bytes) -> Spelled | None:
    """The text of a message; None where it has none that could be changed."""
    return _SPELLED[codec](message)


def _event(message: bytes) -> Spelled | None:
    lines = tuple((it.start(1), _text(it[1])) for it in _DATA.finditer(message))
    return Lines(lines) if lines else None


def _document(message: bytes) -> Spelled | None:
    try:
        return Lines(((0, message.decode()),))
    except UnicodeDecodeError:
        return None  # a sound, or a picture


def _element(message: bytes) -> Spelled:
    found = _BEFORE.match(message)
    begin = found.end() if found is not None else 0
    return Lines(((begin, _text(message[begin:])),))


def _line(message: bytes) -> Spelled:
    return Lines(((0, _text(message)),))


def _frame(frame: bytes) -> Spelled | None:
    if (
        len(frame) < eventstream.PRELUDE
        or eventstream.frame_size(frame[: eventstream.PRELUDE]) is None
    ):
        return None
    place = frame_edits.payload(frame)
    if place is None:
        return None
    framed = Framed(frame, place[0], _text(frame[place[0] : place[1]]))
    if f'"{_PACKED}"' not in framed.text:
        return framed
    for token in json_text.tokens(framed.text):
        if token.member == _PACKED:
            try:
                return Packed(framed, token, _text(b64decode(token.value, validate=True)))
            except ValueError:
                break
    return framed


_SPELLED: Final[Mapping[str, Callable[[bytes], Spelled | None]]] = MappingProxyType(
    {
        "sse": _event,
        "ndjson": _line,
        "json-array": _element,
        "whole": _document,
        eventstream.NAME: _frame,
    }
)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(_bytes(text))
