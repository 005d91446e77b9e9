"""Every recorded request, converted to every dialect: the same conversation, or a refusal.

`PYTHONPATH=proxy:tests python tests/test_transcoding_corpus.py` writes the table anew, and prints
its counts as Markdown.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

import corpus
from llm_proxy import dialects, providers
from llm_proxy.conversation import Conversation
from llm_proxy.dialects.lenient_json import is_same_json, parse_json
from llm_proxy.errors import NotRepresentable
from llm_proxy.transcoding import requests
from llm_proxy.transcoding.requests import request_target, transcode_request
from llm_proxy.transcoding.unread_fields import unread_fields
from llm_proxy.turns import Media, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not corpus.available(), reason=corpus.REASON),
]

TABLE: Final = Path(__file__).with_name("corpus_transcoding.json")
"""By recorded dialect and target: how many requests were converted, and why others were refused."""

OPTIONS: Final = (
    "temperature", "top_p", "max_tokens", "top_k", "repeat_penalty", "seed", "stop_sequences",
    "response_schema",
)  # fmt: skip

ONE_PROMPT: Final = "roles of messages (sent as one prompt)"
_EMPTY_SCHEMA: Final = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class Conversion:
    """One request of the corpus, and what became of it."""

    row_id: str
    source: str
    target: str
    given: Conversation
    kept: Conversation | None
    """The conversation of the converted request; None if it was refused."""
    losses: tuple[str, ...] = ()
    refusal: str = ""


@cache
def conversions() -> tuple[Conversion, ...]:
    with pytest.MonkeyPatch.context() as patch:
        # They depend on the recorded request only, and not on the target.
        patch.setattr(requests, "unread_fields", cache(unread_fields))
        return tuple(_conversions())


def _conversions() -> Iterator[Conversion]:
    for row in corpus.rows():
        dialect = dialects.dialect_of_request(row.request)
        given = dialect.decode_request(row.request) if row.request_body else None
        if given is None:
            continue
        provider = providers.provider_of_request(row.request)
        for name in dialects.request_dialects():
            target = request_target(name)
            try:
                transcoded = transcode_request(row.request, dialect, provider, target, "model")
            except NotRepresentable as error:
                yield Conversion(row.id, dialect.name, name, given, None, refusal=str(error))
                continue
            kept = target.dialect.decode_request(transcoded.request)
            assert kept is not None, (row.id, name)
            assert target.dialect.streams(transcoded.request) == dialect.streams(row.request)
            yield Conversion(row.id, dialect.name, name, given, kept, transcoded.losses)


def table() -> dict[str, dict[str, Any]]:
    """The counts, in the form of `TABLE`."""
    counts: dict[str, dict[str, Any]] = defaultdict(dict)
    for conversion in conversions():
        cell = counts[conversion.source].setdefault(
            conversion.target, {"converted": 0, "refused": Counter()}
        )
        if conversion.kept is not None:
            cell["converted"] += 1
        else:
            cell["refused"][conversion.refusal.removeprefix(f"{conversion.target} ")] += 1
    return counts


def test_a_request_is_converted_but_for_the_listed_losses_or_refused_by_name() -> None:
    """One test: another worker would convert all requests again."""
    differences = {
        (conversion.row_id, conversion.target): changed
        for conversion in conversions()
        if (changed := [*_problems(conversion)])
    }

    assert differences == {}
    assert orjson.loads(orjson.dumps(table())) == orjson.loads(TABLE.read_bytes())


def _problems(conversion: Conversion) -> Iterator[str]:
    if conversion.kept is not None:
        yield from _changed(conversion.given, conversion.kept, conversion.losses)
    elif not conversion.refusal.startswith(
        (
            f"{conversion.target} cannot represent ",
            f"{conversion.target}: ",
            "the request contains no conversation",
        )
    ):
        yield conversion.refusal


def _changed(given: Conversation, kept: Conversation, losses: Sequence[str]) -> Iterator[str]:
    """The names of what differs, and is not a listed loss or a default of the format."""
    if kept.model != "model":
        yield "model"
    for name in OPTIONS:
        before, after = getattr(given, name), getattr(kept, name)
        is_default = name == "max_tokens" and before is None
        if not (is_same_json(_json(before), _json(after)) or is_default):
            yield name
    if (given.tool_choice or "auto") != (kept.tool_choice or "auto") and kept.tools:
        yield "tool_choice"
    if given.tool_choice != "none" or kept.tools:
        before, after = map(_tools, (given, kept))
        if not is_same_json(before, after):
            yield "tools"
    if ONE_PROMPT in losses:
        prompt = "".join(kept.prompt.split())
        texts = [message.text for message in given.messages]
        if not all("".join(text.split()) in prompt for text in (given.system, *texts)):
            yield "messages"
        return
    if _system_text(given) != _system_text(kept):
        yield "system"
    before, after = (_messages(each, losses) for each in (given, kept))
    if not is_same_json(before, after):
        yield "messages"


def _json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _tools(conversation: Conversation) -> Any:
    """The tools, with what some formats require in every schema."""
    return [
        [tool.name, tool.description, {**_EMPTY_SCHEMA, **_fields(tool.parameters_schema)}]
        for tool in conversation.tools
    ]


def _fields(schema: Any) -> Any:
    return schema if isinstance(schema, dict) else {}


def _system_text(conversation: Conversation) -> str:
    texts = [message.text for message in conversation.messages if message.role == "system"]
    first = [conversation.system] if conversation.system not in texts else []
    return "".join("".join((*first, *texts)).split())


def _messages(conversation: Conversation, losses: Sequence[str]) -> Any:
    """The messages with results apart, adjacent ones of a role merged, and calls by number."""
    separated: list[tuple[str, list[Part]]] = []
    for message in conversation.messages:
        results: list[Part] = [part for part in message.parts if isinstance(part, ToolResult)]
        others: list[Part] = [part for part in message.parts if part not in results]
        if message.role != "system":
            separated += [("tool", results), (message.role, others)]
    numbers: dict[str, list[int]] = defaultdict(list)
    names: dict[int, str] = {}
    pieces = [
        (role, piece)
        for role, parts in separated
        for part in parts
        if (piece := _piece(part, losses, numbers, names))
    ]
    return [
        [role, _joined([piece for _, piece in group])]
        for role, group in groupby(pieces, key=lambda pair: pair[0])
    ]


def _piece(
    part: Part, losses: Sequence[str], numbers: dict[str, list[int]], names: dict[int, str]
) -> Any:
    match part:
        case Text(text=text) | Refusal(text=text):
            return ["text", text] if text.strip() else None
        case Reasoning(text=text):
            return None if "reasoning" in losses else ["reasoning", text]
        case ToolCall(id=call_id, name=name, arguments=arguments):
            value: Any = arguments
            with suppress(ValueError):
                value = parse_json((arguments or "{}").encode())
            numbers[call_id].append(len(names))
            names[len(names)] = name
            return ["call", name, value]
        case ToolResult(call_id=call_id, content=content, failed=failed):
            waiting = numbers[call_id]
            named = [number for number in waiting if not part.name or names[number] == part.name]
            number = (named or waiting or [-1])[0]
            if number in waiting:
                waiting.remove(number)
            return ["result", number, content, failed and "whether a tool failed" not in losses]
        case Media(url=url, base64=data):
            return ["media", url or data]


def _joined(pieces: list[Any]) -> Any:
    """The pieces by kind, with their texts joined."""
    by_kind: dict[str, list[Any]] = defaultdict(list)
    for kind, *values in pieces:
        by_kind[kind].append(values)
    return {
        kind: "".join("".join(value for [value] in values).split())
        if kind in ("text", "reasoning")
        else values
        for kind, values in by_kind.items()
    }


def _markdown() -> Iterator[str]:
    counts = table()
    targets = [*dialects.request_dialects()]
    yield f"| from | {' | '.join(targets)} |"
    yield f"|---|{'---|' * len(targets)}"
    for source, cells in sorted(counts.items()):
        texts = (
            f"{cells[target]['converted']} / {sum(cells[target]['refused'].values())}"
            for target in targets
        )
        yield f"| {source} | {' | '.join(texts)} |"


if __name__ == "__main__":
    TABLE.write_bytes(
        orjson.dumps(table(), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"
    )
    for line in _markdown():
        sys.stdout.write(f"{line}\n")
