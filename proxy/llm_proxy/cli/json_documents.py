"""JSON documents: those that `--json` prints, named as in the cassette format, and a request's."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from llm_proxy.cassette import Cassette, CassetteMeta
from llm_proxy.cassette.framed_message_json import encode_message
from llm_proxy.cassette.model import StoredHead, request_line
from llm_proxy.cassette_views import cassette_outcome, cassette_response_turns
from llm_proxy.dialects import lenient_json
from llm_proxy.display import path_as_unicode_text
from llm_proxy.errors import CassetteError, UsageError
from llm_proxy.exchange import Outcome
from llm_proxy.scenario.documents.mistakes import DocumentMistake
from llm_proxy.timeline import message_arrivals
from llm_proxy.turns import Turn

_CAMEL_CASE_BOUNDARY: Final = re.compile(r"(?<!^)(?=[A-Z])")


def meta_document(meta: CassetteMeta) -> dict[str, Any]:
    """The metadata of a cassette: its line 1."""
    return dict(msgspec.to_builtins(meta))


def outcome_document(outcome: Outcome) -> dict[str, Any]:
    """An outcome, with its sentence for people as `text`."""
    return {
        "complete": outcome.is_complete,
        "proven": outcome.is_proven,
        "reason": outcome.reason,
        "text": str(outcome),
    }


def cassette_error_document(error: CassetteError) -> dict[str, Any]:
    """A file that is not a valid cassette: its path, the line and the reason."""
    return {"file": path_as_unicode_text(error.file), "line": error.line, "reason": error.reason}


def mistake_document(document_mistake: DocumentMistake) -> dict[str, Any]:
    """A mistake or warning in a scenario file; line and column are null for a whole file."""
    return {
        "file": document_mistake.file,
        "line": document_mistake.line or None,
        "column": document_mistake.column or None,
        "path": document_mistake.json_path,
        "message": document_mistake.message,
        "severity": "error" if document_mistake.fails_lint else "warning",
    }


def cassette_document(cassette: Cassette) -> dict[str, Any]:
    """Everything that a cassette holds, with its outcome and its decoded turns."""
    return {
        "file": path_as_unicode_text(cassette.file),
        **meta_document(cassette.meta),
        "outcome": outcome_document(cassette_outcome(cassette)),
        **request_line(cassette.request),
        **msgspec.to_builtins(
            {
                "response": StoredHead.from_response_head(
                    cassette.response_head,
                    cassette.response_head_at_ms,
                    cassette.codec_name,
                    cassette.content_coding,
                )
            }
        ),
        "turns": [turn_document(turn) for turn in cassette_response_turns(cassette)],
        "messages": [
            {
                "at": message_arrival.at_ms,
                "gap": round(message_arrival.gap_ms, 2),
                "reads": message_arrival.read_count,
                **encode_message(message_arrival.message_bytes),
            }
            for message_arrival in message_arrivals(cassette.framed_messages, cassette.reads)
        ],
        "reads": [{"at": read.at_ms, "bytes": len(read.received_bytes)} for read in cassette.reads],
        **msgspec.to_builtins({"end": cassette.response_end}),
    }


def turn_document(turn: Turn) -> dict[str, Any]:
    """A turn; each part has its class in `type`, in snake_case."""
    document = _nonempty_fields(turn)
    document["parts"] = [
        {
            "type": _CAMEL_CASE_BOUNDARY.sub("_", type(part).__name__).lower(),
            **_nonempty_fields(part),
        }
        for part in turn.parts
    ]
    return document


def _nonempty_fields(value: Any) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        field_value = getattr(value, field.name)
        if field.name == "metadata":
            field_value = dict(field_value)
        elif dataclasses.is_dataclass(field_value):
            field_value = _nonempty_fields(field_value)
        elif field.name == "citations":
            field_value = [_nonempty_fields(content) for content in field_value]
        if field_value not in (None, "", (), {}, []):
            document[field.name] = field_value
    return document


def read_json_object(name: str, form: str, empty_message: str = "") -> dict[str, Any]:
    """The JSON object in a file, or on stdin for `-`; `form` says in the error what it should be.

    Raises `UsageError` for other content, with `empty_message` where there is none.
    """
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from None
    if empty_message and not content.strip():
        raise UsageError(empty_message)
    try:
        document = lenient_json.parse_json(content)
    except ValueError as error:
        raise UsageError(f"{name} is not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise UsageError(f"{name} is not a JSON object; pass {form}")
    return dict(document)
