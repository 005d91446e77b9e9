"""Parses YAML by PyYAML's events (in C where available); the meaning is ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from llm_proxy.scenario.documents.parsing import yaml_messages
from llm_proxy.scenario.documents.parsing.composing import DocumentComposer
from llm_proxy.scenario.documents.parsing.nodes import (
    ScalarNode,
    SourceMark,
    UnreadableDocument,
    mark_at,
)
from llm_proxy.scenario.documents.parsing.scalars import (
    Value,
    is_collection_tag,
    scalar_value,
    tagged_value,
    unknown_tag_message,
)

Loader = type[yaml.BaseLoader] | type[yaml.CBaseLoader]

LOADER: Final[Loader] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Of either only the parser is used."""

_UNREAD: Final = re.compile(
    r"[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
"""What YAML has no place for; and the line ends that YAML 1.2 has not and its parsers still see."""


def read_yaml(text: str, composer: DocumentComposer, loader: Loader = LOADER) -> None:
    """Tell the documents of a text to the composer; its lines end in LF.

    Raises `Unreadable` where it cannot be read on.
    """
    if (unread := _UNREAD.search(text)) is not None:
        mark = mark_at(text, unread.start())
        raise UnreadableDocument(mark, yaml_messages.invalid_character_message(unread[0]))
    for event in _events(text, loader):
        _tell(event, composer)


def _events(text: str, loader: Loader) -> Iterator[Event]:
    try:
        yield from yaml.parse(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        raise yaml_messages.parser_error(error, text) from None
    except yaml.YAMLError as error:
        raise UnreadableDocument(SourceMark(1, 1), f"this is no valid YAML: {error}") from None


def _tell(event: Event, composer: DocumentComposer) -> None:
    match event:  # what there is most of comes first
        case ScalarEvent():
            mark = _mark(event)
            value = _value(event, composer, mark)
            is_plain = bool(event.implicit[0])
            composer.add_scalar(
                ScalarNode(value, mark, event.value, is_plain), str(event.anchor or "")
            )
        case CollectionEndEvent():
            composer.end_collection()
        case MappingStartEvent():
            _begin(event, composer, is_object=True)
        case SequenceStartEvent():
            _begin(event, composer, is_object=False)
        case AliasEvent():
            composer.add_alias(_mark(event), str(event.anchor))
        case DocumentStartEvent():
            composer.start_document()
        case _:
            return


def _begin(event: NodeEvent, composer: DocumentComposer, *, is_object: bool) -> None:
    tag, mark = str(getattr(event, "tag", None) or ""), _mark(event)
    if not is_collection_tag(tag, "map" if is_object else "seq"):
        composer.add_mistake(mark, unknown_tag_message(tag))
    composer.start_collection(mark, is_object=is_object, anchor=str(event.anchor or ""))


def _value(event: ScalarEvent, composer: DocumentComposer, mark: SourceMark) -> Value:
    """What a scalar means; what it cannot mean is told, and it stays text."""
    text = event.value
    try:
        if event.tag is not None:
            return tagged_value(event.tag, text)
        return scalar_value(text) if event.implicit[0] else text
    except ValueError as error:
        composer.add_mistake(mark, str(error))
        return text


def _mark(event: Event) -> SourceMark:
    at = event.start_mark
    return SourceMark(1, 1) if at is None else SourceMark(at.line + 1, at.column + 1)
