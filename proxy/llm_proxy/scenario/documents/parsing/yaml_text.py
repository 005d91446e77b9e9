"""Parses YAML from PyYAML's events (in C if available); values are resolved by `scalars`."""

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
    ScalarValue,
    is_default_collection_tag,
    scalar_value,
    tagged_value,
    unknown_tag_message,
)

Loader = type[yaml.BaseLoader] | type[yaml.CBaseLoader]

DEFAULT_LOADER: Final[Loader] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""Only the parser of the loader is used."""

_UNSUPPORTED_CHAR: Final = re.compile(
    r"[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
"""Characters that YAML forbids, and line ends of YAML 1.1 that its parsers still recognise."""


def parse_yaml_into_composer(
    text: str, composer: DocumentComposer, loader: Loader = DEFAULT_LOADER
) -> None:
    """Parse the documents of a text, with LF line ends, into the composer.

    Raises `UnreadableDocument`.
    """
    if (match := _UNSUPPORTED_CHAR.search(text)) is not None:
        mark = mark_at(text, match.start())
        raise UnreadableDocument(mark, yaml_messages.invalid_character_message(match[0]))
    for event in _parse_events(text, loader):
        _compose_event(event, composer)


def _parse_events(text: str, loader: Loader) -> Iterator[Event]:
    try:
        yield from yaml.parse(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        raise yaml_messages.convert_parser_error(error, text) from None
    except yaml.YAMLError as error:
        raise UnreadableDocument(SourceMark(1, 1), f"this is no valid YAML: {error}") from None


def _compose_event(event: Event, composer: DocumentComposer) -> None:
    match event:  # most frequent first
        case ScalarEvent():
            mark = _start_mark(event)
            value = _scalar_event_value(event, composer, mark)
            is_plain = bool(event.implicit[0])
            composer.add_scalar(
                ScalarNode(value, mark, event.value, is_plain), str(event.anchor or "")
            )
        case CollectionEndEvent():
            composer.end_collection()
        case MappingStartEvent():
            _start_collection(event, composer, is_object=True)
        case SequenceStartEvent():
            _start_collection(event, composer, is_object=False)
        case AliasEvent():
            composer.add_alias(_start_mark(event), str(event.anchor))
        case DocumentStartEvent():
            composer.start_document()
        case _:
            return


def _start_collection(event: NodeEvent, composer: DocumentComposer, *, is_object: bool) -> None:
    tag, mark = str(getattr(event, "tag", None) or ""), _start_mark(event)
    if not is_default_collection_tag(tag, "map" if is_object else "seq"):
        composer.add_mistake(mark, unknown_tag_message(tag))
    composer.start_collection(mark, is_object=is_object, anchor=str(event.anchor or ""))


def _scalar_event_value(
    event: ScalarEvent, composer: DocumentComposer, mark: SourceMark
) -> ScalarValue:
    """The value of a scalar; an invalid one is recorded as a mistake and stays text."""
    text = event.value
    try:
        if event.tag is not None:
            return tagged_value(event.tag, text)
        return scalar_value(text) if event.implicit[0] else text
    except ValueError as error:
        composer.add_mistake(mark, str(error))
        return text


def _start_mark(event: Event) -> SourceMark:
    start_mark = event.start_mark
    return (
        SourceMark(1, 1)
        if start_mark is None
        else SourceMark(start_mark.line + 1, start_mark.column + 1)
    )
