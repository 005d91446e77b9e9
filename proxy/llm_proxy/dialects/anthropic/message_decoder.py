"""Anthropic's messages, whole or as their events come, and its legacy completions.

    message_start
    ( content_block_start  content_block_delta*  content_block_stop )*
    message_delta            stop reason and usage, as totals
    message_stop

`ping` may stand anywhere, and `error` in place of the rest.  A message that goes on where a tool
of the provider called one of the client's comes whole in its `message_start`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from llm_proxy.dialects import json_api, lenient_json
from llm_proxy.dialects.anthropic import block_decoder, usage
from llm_proxy.dialects.anthropic.block_decoder import Block, is_call, part
from llm_proxy.dialects.anthropic.errors import REQUEST_ID
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.turns import (
    Failure,
    Finish,
    Json,
    Metadata,
    Part,
    Reasoning,
    Refusal,
    Text,
    Turn,
)

FINISH: Final = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP_SEQUENCE,
    "max_tokens": Finish.LENGTH,
    "tool_use": Finish.TOOL_CALLS,
    "pause_turn": Finish.PAUSED,
    "compaction": Finish.PAUSED,
    "refusal": Finish.REFUSAL,
    "model_context_window_exceeded": Finish.CONTEXT_FULL,
}
"""What each reason to stop means."""

REFUSAL: Final = "refusal"
"""The reason to stop, and the type of the details, of an answer that was declined."""

DETAILS: Final = "stop_details"
OTHER_BLOCKS: Final = "other_blocks"
USAGE: Final = "usage"
"""Metadata of a turn: why it was declined, blocks that no part has a word for, and what `Usage`
has no word for."""

_HAVE_WORDS: Final = (
    "type", "id", "role", "model", "content", "stop_reason", "usage",
    "delta", "completion", "log_id",
)  # fmt: skip
"""Fields of messages and completions that need no place beside the turn; `log_id` is the id."""

_SILENT: Final = (Text(""), Reasoning())


def kind(document: Fields) -> str:
    """What a document is: the type of its event, `message`, `completion`, or `error`.

    Empty where it is none of Anthropic's (counts of tokens, lists of models).
    """
    if document.get("error"):
        return "error"
    if named := lenient_json.words(document.get("type")):
        return named
    return "message" if isinstance(document.get("content"), list) else ""


def stop_reason(document: Fields) -> str:
    """Why the message ended, where this event or document says so."""
    is_delta = kind(document) == "message_delta"
    says = lenient_json.fields(document.get("delta")) if is_delta else document
    return lenient_json.words(says.get("stop_reason"))


def says(document: Fields) -> int:
    """How many characters an event adds to what was said: deltas do, but for seals, citations."""
    match kind(document):
        case "content_block_delta":
            return block_decoder.says(lenient_json.fields(document.get("delta")))
        case "completion":
            return len(lenient_json.text(document.get("completion")))
        case _:
            return 0


def failure(document: Fields) -> Failure:
    """What an error says; its `error_code` stands among the details."""
    error = document.get("error") or dict(document)
    said = json_api.failure(error)
    details = lenient_json.fields(lenient_json.fields(error).get("details"))
    return replace(said, code=said.code or lenient_json.words(details.get("error_code")))


class Messages:
    """The turns of a response, as its documents come: one, but for streams that were spliced."""

    def __init__(self) -> None:
        self._messages: list[_Message] = []

    def take(self, document: Fields) -> None:
        """Read one event, or the one document of a response that does not stream."""
        match kind(document):
            case "message_start":
                self._messages.append(_Message())
                self._messages[-1].start(lenient_json.fields(document.get("message")))
            case "message":
                self._messages.append(_Message())
                self._messages[-1].start(document)
            case "content_block_start" | "content_block_delta" | "content_block_stop":
                self._current().take_block(document)
            case "message_delta":
                self._current().end(document)
            case "completion":
                self._current().complete(document)
            case "error":
                self._current().fail(document)
            case _:
                pass  # a ping, or nothing of a message

    def turns(self) -> tuple[Turn, ...]:
        """What was said."""
        return tuple(message.turn() for message in self._messages)

    def _current(self) -> _Message:
        """The message that events belong to, whose own start may be missing."""
        if not self._messages:
            self._messages.append(_Message())
        return self._messages[-1]


class _Message:
    """One message, as its events come."""

    def __init__(self) -> None:
        self._about: dict[str, Json] = {}
        self._usage: dict[str, Json] = {}
        self._blocks: list[tuple[int, Block]] = []
        self._open: dict[int, Block] = {}
        """For each index, the block that began there last."""
        self._failure: Failure | None = None

    def start(self, message: Fields) -> None:
        """Read a message object, whose blocks are whole."""
        self._note(message)
        for index, content in enumerate(lenient_json.objects(message.get("content"))):
            self._begin(index, Block(content, closed=True))

    def take_block(self, event: Fields) -> None:
        """Read an event of one block."""
        said = lenient_json.count(event.get("index"))
        started = event.get("type") == "content_block_start"
        index = len(self._blocks) - (not started) if said is None else said
        if started:
            self._begin(index, Block(lenient_json.fields(event.get("content_block"))))
            return
        if event.get("type") == "content_block_delta":
            self._block(index).take(lenient_json.fields(event.get("delta")))
        elif index in self._open:
            self._open[index].closed = True

    def end(self, event: Fields) -> None:
        """Read a `message_delta`: why the message ends, and what it cost."""
        self._note(lenient_json.fields(event.get("delta")))
        self._note(event)

    def complete(self, completion: Fields) -> None:
        """Read a legacy completion, whole or the next piece of it."""
        self._note(completion)
        written = {"type": "text_delta", "text": completion.get("completion")}
        self._block(0).take(written)

    def fail(self, document: Fields) -> None:
        """Read an error; the first counts."""
        self._failure = self._failure or failure(document)
        self._note({REQUEST_ID: document.get(REQUEST_ID)})

    def turn(self) -> Turn:
        """What was said."""
        raw = lenient_json.words(self._about.get("stop_reason"))
        parts, others = self._parts()
        declined = refusal(self._about.get(DETAILS)) if raw == REFUSAL else ()
        return Turn(
            (*parts, *declined),
            finish=FINISH.get(raw, Finish.OTHER) if raw else None,
            finish_raw=raw,
            usage=usage.read(self._usage),
            failure=self._failure,
            id=lenient_json.words(self._about.get("id")),
            model=handed_on(others) or lenient_json.words(self._about.get("model")),
            metadata=self._metadata(others, told=(DETAILS,) if declined else ()),
        )

    def _note(self, said: Fields) -> None:
        """Keep what is said; null says nothing, and what is said later counts."""
        self._about.update((name, value) for name, value in said.items() if value is not None)
        counts = lenient_json.fields(said.get("usage"))
        self._usage.update((name, value) for name, value in counts.items() if value is not None)

    def _begin(self, index: int, block: Block) -> None:
        self._blocks.append((index, block))
        self._open[index] = block

    def _block(self, index: int) -> Block:
        """The block that is open there; its start may be missing."""
        if index not in self._open:
            self._begin(index, Block({}))
        return self._open[index]

    def _parts(self) -> tuple[list[Part], list[Json]]:
        """What the blocks say, and those that no part has a word for."""
        contents = [(index, block.content()) for index, block in self._blocks]
        names = {
            lenient_json.words(it.get("id")): lenient_json.words(it.get("name"))
            for _, it in contents
            if is_call(it)
        }
        parts: list[Part] = []
        others: list[Json] = []
        for index, content in contents:
            said = part(content, names)
            if said is None and content:
                others.append({"index": index, "content_block": dict(content)})
            elif said is not None and said not in _SILENT:
                parts.append(said)
        return parts, others

    def _metadata(self, others: list[Json], told: tuple[str, ...]) -> Metadata:
        known = (*_HAVE_WORDS, *told)
        beside = {name: value for name, value in self._about.items() if name not in known}
        beside[USAGE] = usage.beside(self._usage)
        beside[OTHER_BLOCKS] = others
        return lenient_json.metadata(beside, beside)


def handed_on(others: list[Json]) -> str:
    """The model that answered where one declined: the last `fallback` block names it."""
    blocks = [lenient_json.fields(lenient_json.fields(it).get("content_block")) for it in others]
    to = [lenient_json.fields(it.get("to")) for it in blocks if it.get("type") == "fallback"]
    named = [lenient_json.words(it.get("model")) for it in to]
    return next(filter(None, reversed(named)), "")


def refusal(said: Json) -> tuple[Refusal, ...]:
    """The explanation of a refusal, with its category beside it; none where none is given."""
    details = lenient_json.fields(said)
    explanation = lenient_json.words(details.get("explanation"))
    beside = (name for name in details if name not in ("type", "explanation"))
    return (Refusal(explanation, lenient_json.metadata(details, beside)),) if explanation else ()
