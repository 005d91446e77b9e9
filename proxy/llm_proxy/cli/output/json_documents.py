"""The JSON documents that `--json` prints; field names follow the cassette format."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Final

import msgspec
import orjson

from llm_proxy.cassette import Cassette, Meta
from llm_proxy.cassette.framed_message_json import encode_message
from llm_proxy.cassette.schema import EndLine, HeadLine, MetaLine, RequestLine
from llm_proxy.cassette_views import cassette_turns
from llm_proxy.display import escape_path
from llm_proxy.errors import CassetteError
from llm_proxy.exchange import Outcome
from llm_proxy.outcome import outcome_of
from llm_proxy.scenario.documents.mistakes import DocumentMistake
from llm_proxy.timeline import message_arrivals
from llm_proxy.turns import Turn

_WORDS: Final = re.compile(r"(?<!^)(?=[A-Z])")


def meta_document(meta: Meta) -> dict[str, Any]:
    """Line 1."""
    document: dict[str, Any] = _line_fields(MetaLine.from_value(meta))
    return document


def outcome_document(outcome: Outcome) -> dict[str, Any]:
    """An outcome, with its one sentence."""
    return {**dataclasses.asdict(outcome), "text": str(outcome)}


def refusal_document(error: CassetteError) -> dict[str, Any]:
    """A file that is no cassette, and why."""
    return {"file": escape_path(error.file), "line": error.line, "why": error.why}


def mistake_document(document_mistake: DocumentMistake) -> dict[str, Any]:
    """What is wrong or doubtful in a scenario file; line and column are null for a whole file."""
    return {
        "file": document_mistake.file,
        "line": document_mistake.line or None,
        "column": document_mistake.column or None,
        "path": document_mistake.path,
        "message": document_mistake.message,
        "severity": "mistake" if document_mistake.fails_lint else "warning",
    }


def cassette_document(cassette: Cassette) -> dict[str, Any]:
    """Everything that a cassette holds, and what it means."""
    it = cassette
    return {
        "file": escape_path(it.file),
        **meta_document(it.meta),
        "outcome": outcome_document(outcome_of(it)),
        **_line_fields(RequestLine.from_value(it.request)),
        **_line_fields(HeadLine.from_value(it.head, it.head_at_ms, it.codec, it.decoded)),
        "turns": [turn_document(turn) for turn in cassette_turns(it)],
        "messages": [
            {
                "at": message_arrival.at_ms,
                "gap": round(message_arrival.gap_ms, 2),
                "reads": message_arrival.reads,
                **encode_message(message_arrival.message),
            }
            for message_arrival in message_arrivals(it.messages, it.reads)
        ],
        "reads": [{"at": read.at_ms, "bytes": len(read.data)} for read in it.reads],
        **_line_fields(EndLine.from_value(it.end)),
    }


def turn_document(turn: Turn) -> dict[str, Any]:
    """A turn; each part says what it is in `type`."""
    document = _nonempty_fields(turn)
    document["parts"] = [
        {"type": _WORDS.sub("_", type(part).__name__).lower(), **_nonempty_fields(part)}
        for part in turn.parts
    ]
    return document


def _nonempty_fields(value: Any) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        content = getattr(value, field.name)
        if field.name == "metadata":
            content = dict(content)
        elif dataclasses.is_dataclass(content):
            content = _nonempty_fields(content)
        elif field.name == "citations":
            content = [_nonempty_fields(content) for content in content]
        if content not in (None, "", (), {}, []):
            document[field.name] = content
    return document


def _line_fields(line: Any) -> Any:
    return msgspec.to_builtins(line, builtin_types=(orjson.Fragment,))
