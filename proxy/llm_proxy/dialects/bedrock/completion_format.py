"""Completions of text as their makers' models tell them: one document, or pieces and an end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import lenient_json, request_decoding
from llm_proxy.dialects.bedrock.completion_decoder import FINISH
from llm_proxy.dialects.capabilities import Vocabulary
from llm_proxy.dialects.cohere.request_decoder import read_version_1
from llm_proxy.dialects.encode_context import Delivery
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Finish, Turn


def _prompted(body: Fields) -> Conversation:
    top_p = body.get("top_p", body.get("p"))
    return request_decoding.prompted(body.get("prompt"), body.get("temperature"), top_p)


@dataclass(frozen=True, slots=True)
class Completion:
    """A maker whose models say text, and nothing else."""

    words: Mapping[Finish, str]
    whole: Callable[[str, Turn], Document]
    """The document of a text, and how the turn ended."""
    piece: Callable[[str], Document]
    """A piece of text in a stream."""
    end: Callable[[Turn], Document]
    """The last event of a stream."""
    counts: bool = False
    """Whether it counts tokens itself."""
    has_id: bool = False
    """Whether a document has an id."""
    asked: Callable[[Fields], Conversation] = _prompted
    """What a request asks."""

    def conversation(self, body: Fields) -> Conversation:
        """What a request asks: one prompt, for most."""
        return self.asked(body)

    def vocabulary(self, *, streams: bool, delivery: Delivery) -> Vocabulary:
        """Text, and why it ended."""
        counts = ("input", "output") if self.counts else ()
        return Vocabulary(
            dialect="bedrock",
            streams=streams,
            finishes=FINISH,
            words=self.words,
            id_prefix="" if self.has_id and not streams else None,
            names_model=False,
            counts=counts,
            always=counts,
            counts_always=self.counts,
        )

    def document(self, turn: Turn, _delivery: Delivery) -> Document:
        """The text and its end."""
        return self.whole(turn.text, turn)

    def events(self, turn: Turn, delivery: Delivery) -> Iterator[Document]:
        """The pieces of the text, and its end."""
        yield from map(self.piece, delivery.cut(turn.text))
        if turn.failure is None:
            yield self.end(turn)


def _input(turn: Turn | None) -> int | None:
    return None if turn is None or turn.usage is None else turn.usage.input


def _output(turn: Turn | None) -> int | None:
    return None if turn is None or turn.usage is None else turn.usage.output


def _reason(turn: Turn | None) -> str | None:
    return None if turn is None else turn.finish_raw


_SHOUTED: Final = {
    Finish.STOP: "FINISH",
    Finish.LENGTH: "LENGTH",
    Finish.STOP_SEQUENCE: "STOP_CRITERIA_MET",
    Finish.CONTENT_FILTER: "CONTENT_FILTERED",
}
_WORDS: Final = {Finish.STOP: "stop", Finish.LENGTH: "length"}
_OF_COHERE: Final = {
    Finish.STOP: "COMPLETE",
    Finish.LENGTH: "MAX_TOKENS",
    Finish.CONTENT_FILTER: "ERROR_TOXIC",
    Finish.ERROR: "ERROR",
}


def _asked_of_titan(body: Fields) -> Conversation:
    config = lenient_json.fields(body.get("textGenerationConfig"))
    prompt = body.get("inputText")
    return request_decoding.prompted(prompt, config.get("temperature"), config.get("topP"))


def _titan_piece(text: str, turn: Turn | None = None) -> Document:
    return {
        "outputText": text,
        "index": 0,
        "totalOutputTextTokenCount": _output(turn),
        "completionReason": _reason(turn),
        "inputTextTokenCount": _input(turn),
    }


TITAN: Final = Completion(
    words=_SHOUTED,
    whole=lambda text, turn: {
        "inputTextTokenCount": _input(turn),
        "results": [
            {"tokenCount": _output(turn), "outputText": text, "completionReason": turn.finish_raw}
        ],
    },
    piece=_titan_piece,
    end=lambda turn: _titan_piece("", turn),
    counts=True,
    asked=_asked_of_titan,
)


def _llama_piece(text: str, turn: Turn | None = None) -> Document:
    return {
        "generation": text,
        "prompt_token_count": _input(turn),
        "generation_token_count": _output(turn),
        "stop_reason": _reason(turn),
    }


LLAMA: Final = Completion(
    words=_WORDS,
    whole=_llama_piece,
    piece=_llama_piece,
    end=lambda turn: _llama_piece("", turn),
    counts=True,
)


def listed(name: str) -> Completion:
    """Text in a list of this name, as of Mistral's and DeepSeek's."""

    def told(text: str, turn: Turn | None = None) -> Document:
        return {name: [{"text": text, "stop_reason": _reason(turn)}]}

    return Completion(words=_WORDS, whole=told, piece=told, end=lambda turn: told("", turn))


COHERE: Final = Completion(
    words=_OF_COHERE,
    whole=lambda text, turn: {
        "id": turn.id,
        "generations": [{"id": turn.id, "text": text, "finish_reason": turn.finish_raw}],
        "prompt": "",
    },
    piece=lambda text: {"is_finished": False, "text": text},
    end=lambda turn: {"is_finished": True, "finish_reason": turn.finish_raw},
    has_id=True,
)

COMMAND_R: Final = Completion(
    words=_OF_COHERE,
    whole=lambda text, turn: {
        "text": text, "finish_reason": turn.finish_raw, "chat_history": [],
    },
    piece=lambda text: {"is_finished": False, "event_type": "text-generation", "text": text},
    end=lambda turn: {
        "is_finished": True, "event_type": "stream-end", "finish_reason": turn.finish_raw,
    },
    asked=read_version_1,
)  # fmt: skip
