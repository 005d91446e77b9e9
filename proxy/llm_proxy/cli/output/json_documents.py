"""What `--json` prints: the names are those of the cassette format where it has one."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Final

import msgspec
import orjson

from llm_proxy.cassette import Cassette, Meta
from llm_proxy.cassette.message_json import spell
from llm_proxy.cassette.schema import EndLine, HeadLine, MetaLine, RequestLine
from llm_proxy.cassette_views import turns_of
from llm_proxy.display import path_text
from llm_proxy.errors import CassetteError
from llm_proxy.exchange import Outcome
from llm_proxy.outcome import outcome
from llm_proxy.scenario.documents.mistakes import Mistake
from llm_proxy.timeline import arrivals
from llm_proxy.turns import Turn

_WORDS: Final = re.compile(r"(?<!^)(?=[A-Z])")


def meta_document(meta: Meta) -> dict[str, Any]:
    """Line 1."""
    document: dict[str, Any] = _fields(MetaLine.of(meta))
    return document


def outcome_document(it: Outcome) -> dict[str, Any]:
    """An outcome, with its one sentence."""
    return {**dataclasses.asdict(it), "text": str(it)}


def refusal_document(error: CassetteError) -> dict[str, Any]:
    """A file that is no cassette, and why."""
    return {"file": path_text(error.file), "line": error.line, "why": error.why}


def mistake_document(it: Mistake) -> dict[str, Any]:
    """What is wrong or doubtful in a scenario file; line and column are null for a whole file."""
    return {
        "file": it.file,
        "line": it.line or None,
        "column": it.column or None,
        "path": it.path,
        "message": it.message,
        "severity": "mistake" if it.fails_lint else "warning",
    }


def cassette_document(cassette: Cassette) -> dict[str, Any]:
    """Everything that a cassette holds, and what it means."""
    it = cassette
    return {
        "file": path_text(it.file),
        **meta_document(it.meta),
        "outcome": outcome_document(outcome(it)),
        **_fields(RequestLine.of(it.request)),
        **_fields(HeadLine.of(it.head, it.head_at, it.codec, it.decoded)),
        "turns": [turn_document(turn) for turn in turns_of(it)],
        "messages": [
            {"at": each.at, "gap": round(each.gap, 2), "reads": each.reads, **spell(each.message)}
            for each in arrivals(it.messages, it.reads)
        ],
        "reads": [{"at": read.at, "bytes": len(read.data)} for read in it.reads],
        **_fields(EndLine.of(it.end)),
    }


def turn_document(turn: Turn) -> dict[str, Any]:
    """A turn; each part says what it is in `type`."""
    document = _values(turn)
    document["parts"] = [
        {"type": _WORDS.sub("_", type(part).__name__).lower(), **_values(part)}
        for part in turn.parts
    ]
    return document


def _values(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that say something."""
    document: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        it = getattr(value, field.name)
        if field.name == "metadata":
            it = dict(it)
        elif dataclasses.is_dataclass(it):
            it = _values(it)
        elif field.name == "citations":
            it = [_values(each) for each in it]
        if it not in (None, "", (), {}, []):
            document[field.name] = it
    return document


def _fields(line: Any) -> Any:
    return msgspec.to_builtins(line, builtin_types=(orjson.Fragment,))
