"""The text completion formats of several model makers: a document, or pieces and an end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import lenient_json, request_decoding
from llm_proxy.dialects.bedrock.completion_decoder import FINISH
from llm_proxy.dialects.capabilities import Capabilities
from llm_proxy.dialects.cohere.request_decoder import decode_v1_request
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Finish, Turn


def _decode_prompt_request(body: Fields) -> Conversation:
    top_p = body.get("top_p", body.get("p"))
    return request_decoding.prompt_conversation(body.get("prompt"), body.get("temperature"), top_p)


@dataclass(frozen=True, slots=True)
class CompletionFormat:
    """A maker whose models say text, and nothing else."""

    raw_of_finish: Mapping[Finish, str]
    encode_whole: Callable[[str, Turn], Document]
    """The document of a text, and how the turn ended."""
    encode_piece: Callable[[str], Document]
    """A piece of text in a stream."""
    encode_end: Callable[[Turn], Document]
    """The last event of a stream."""
    usage_fields: bool = False
    """Whether it counts tokens itself."""
    has_response_id: bool = False
    """Whether a document has an id."""
    decode_prompt: Callable[[Fields], Conversation] = _decode_prompt_request
    """What a request asks."""

    def decode_request(self, body: Fields) -> Conversation:
        """What a request asks: one prompt, for most."""
        return self.decode_prompt(body)

    def capabilities(self, *, streams: bool, context: EncodeContext) -> Capabilities:
        """Text, and why it ended."""
        counts = ("input", "output") if self.usage_fields else ()
        return Capabilities(
            dialect="bedrock",
            streams=streams,
            finish_of_raw=FINISH,
            raw_of_finish=self.raw_of_finish,
            id_prefix="" if self.has_response_id and not streams else None,
            names_model=False,
            usage_fields=counts,
            required_usage_fields=counts,
            always_has_usage=self.usage_fields,
        )

    def encode_document(self, turn: Turn, _context: EncodeContext) -> Document:
        """The text and its end."""
        return self.encode_whole(turn.text, turn)

    def encode_events(self, turn: Turn, context: EncodeContext) -> Iterator[Document]:
        """The pieces of the text, and its end."""
        yield from map(self.encode_piece, context.split_text(turn.text))
        if turn.failure is None:
            yield self.encode_end(turn)


def _input_count(turn: Turn | None) -> int | None:
    return None if turn is None or turn.usage is None else turn.usage.input


def _output_count(turn: Turn | None) -> int | None:
    return None if turn is None or turn.usage is None else turn.usage.output


def _raw_finish(turn: Turn | None) -> str | None:
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


def _decode_titan_request(body: Fields) -> Conversation:
    config = lenient_json.object_fields(body.get("textGenerationConfig"))
    prompt = body.get("inputText")
    return request_decoding.prompt_conversation(
        prompt, config.get("temperature"), config.get("topP")
    )


def _encode_titan_piece(text: str, turn: Turn | None = None) -> Document:
    return {
        "outputText": text,
        "index": 0,
        "totalOutputTextTokenCount": _output_count(turn),
        "completionReason": _raw_finish(turn),
        "inputTextTokenCount": _input_count(turn),
    }


TITAN: Final = CompletionFormat(
    raw_of_finish=_SHOUTED,
    encode_whole=lambda text, turn: {
        "inputTextTokenCount": _input_count(turn),
        "results": [
            {
                "tokenCount": _output_count(turn),
                "outputText": text,
                "completionReason": turn.finish_raw,
            }
        ],
    },
    encode_piece=_encode_titan_piece,
    encode_end=lambda turn: _encode_titan_piece("", turn),
    usage_fields=True,
    decode_prompt=_decode_titan_request,
)


def _encode_llama_piece(text: str, turn: Turn | None = None) -> Document:
    return {
        "generation": text,
        "prompt_token_count": _input_count(turn),
        "generation_token_count": _output_count(turn),
        "stop_reason": _raw_finish(turn),
    }


LLAMA: Final = CompletionFormat(
    raw_of_finish=_WORDS,
    encode_whole=_encode_llama_piece,
    encode_piece=_encode_llama_piece,
    encode_end=lambda turn: _encode_llama_piece("", turn),
    usage_fields=True,
)


def list_completion_format(name: str) -> CompletionFormat:
    """Text in a list of this name, as of Mistral's and DeepSeek's."""

    def told(text: str, turn: Turn | None = None) -> Document:
        return {name: [{"text": text, "stop_reason": _raw_finish(turn)}]}

    return CompletionFormat(
        raw_of_finish=_WORDS,
        encode_whole=told,
        encode_piece=told,
        encode_end=lambda turn: told("", turn),
    )


COHERE: Final = CompletionFormat(
    raw_of_finish=_OF_COHERE,
    encode_whole=lambda text, turn: {
        "id": turn.id,
        "generations": [{"id": turn.id, "text": text, "finish_reason": turn.finish_raw}],
        "prompt": "",
    },
    encode_piece=lambda text: {"is_finished": False, "text": text},
    encode_end=lambda turn: {"is_finished": True, "finish_reason": turn.finish_raw},
    has_response_id=True,
)

COMMAND_R: Final = CompletionFormat(
    raw_of_finish=_OF_COHERE,
    encode_whole=lambda text, turn: {
        "text": text, "finish_reason": turn.finish_raw, "chat_history": [],
    },
    encode_piece=lambda text: {"is_finished": False, "event_type": "text-generation", "text": text},
    encode_end=lambda turn: {
        "is_finished": True, "event_type": "stream-end", "finish_reason": turn.finish_raw,
    },
    decode_prompt=decode_v1_request,
)  # fmt: skip
