"""The recording with other values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from llm_proxy.cassette import Cassette
from llm_proxy.cassette.model import sha256
from llm_proxy.exchange import Read
from llm_proxy.framing import frame_edits
from llm_proxy.framing.frame_edits import Edit
from llm_proxy.renaming import fields, json_text
from llm_proxy.renaming.change import Change
from llm_proxy.renaming.editable_text import Spelled, spelled
from llm_proxy.renaming.fields import Key, Piece
from llm_proxy.renaming.values import Values


def renamed(cassette: Cassette, values: Values) -> tuple[Cassette, int]:
    """The recording with the new values, and how many it took.  The same one if it took none."""
    if not values:
        return cassette, 0
    texts = [spelled(cassette.codec, message) for message in cassette.messages]
    changes, count = _changes(texts, values)
    edits = list(_edits(cassette.messages, texts, changes))
    if not edits:
        return cassette, 0
    body = cassette.body
    new = frame_edits.applied(body, edits)
    reads = _cut(new, [len(it.data) for it in cassette.reads], edits)
    length = cassette.head.length
    made = replace(
        cassette,
        head=replace(cassette.head, length=length and length + len(new) - len(body)),
        messages=tuple(_cut(new, list(map(len, cassette.messages)), edits)),
        reads=tuple(Read(it.at, data) for it, data in zip(cassette.reads, reads, strict=True)),
        end=replace(cassette.end, size=len(new), sha256=sha256(new)),
    )
    return made, count


def _cut(body: bytes, sizes: Sequence[int], edits: Sequence[Edit]) -> list[bytes]:
    """The edited body in the pieces of these sizes that it had before."""
    ends = list(frame_edits.moved(accumulate(sizes), edits))
    return [body[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def _edits(
    messages: Sequence[bytes],
    texts: Sequence[Spelled | None],
    changes: Mapping[int, list[Change]],
) -> Iterator[Edit]:
    """All edits of the body, from left to right."""
    at = 0
    for number, (message, text) in enumerate(zip(messages, texts, strict=True)):
        if text is not None and (found := changes.get(number)):
            for it in text.edits(sorted(found, key=lambda it: it.begin)):
                yield Edit(at + it.begin, at + it.end, it.new)
        at += len(message)


def _changes(
    texts: Sequence[Spelled | None], values: Values
) -> tuple[dict[int, list[Change]], int]:
    """What changes in each message's text, by its number; how many values were found."""
    found: dict[int, list[Change]] = defaultdict(list)
    pieces: dict[Key, list[Piece]] = defaultdict(list)
    count = 0
    for number, it in enumerate(texts):
        if it is None:
            continue
        text = it.text
        try:
            body = json_text.parsed(text)
        except ValueError:
            plain = [it for it in values.changes(text) if _is_in_line(text, it)]
            found[number] += plain
            count += len(plain)
            continue
        for place, (key, leaf) in enumerate(fields.leaves(body)):
            pieces[key].append(Piece(number, place, leaf))
    within: dict[int, dict[Piece, list[Change]]] = defaultdict(lambda: defaultdict(list))
    for key, said in pieces.items():
        for piece, change in fields.changes(key, said, values):
            within[piece.message][piece].append(change)
    for number, by_piece in within.items():
        raw = _raw(texts[number], by_piece)
        found[number] += raw
        count += sum(bool(it.new) for it in raw)  # where each begins
    return found, count


def _raw(text: Spelled | None, by_piece: Mapping[Piece, list[Change]]) -> list[Change]:
    """Changes of a document's texts as changes of the document.

    None at all where its texts are not those that were read: of two members of one name only the
    last is.
    """
    if text is None:
        return []
    tokens = [it for it in json_text.tokens(text.text) if not it.is_name]
    if any(tokens[it.text_number].value != it.text for it in by_piece):
        return []
    return [
        change
        for piece in sorted(by_piece, key=lambda it: it.text_number)
        for change in tokens[piece.text_number].raw(by_piece[piece])
    ]


def _is_in_line(text: str, change: Change) -> bool:
    """Whether neither what goes nor what comes ends a line, which may be the framing's."""
    return not any(
        end in it for it in (text[change.begin : change.end], change.new) for end in "\r\n"
    )
