"""The text completion formats of several model makers: a document, or text pieces and an end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import lenient_json, request_decoding
from llm_proxy.dialects.bedrock.completion_decoder import FINISH_BY_REASON
from llm_proxy.dialects.capabilities import Capabilities
from llm_proxy.dialects.cohere.request_decoder import decode_v1_request
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import FinishReason, Turn


def _decode_prompt_request(body: Fields) -> Conversation:
    top_p = body.get("top_p", body.get("p"))
    return request_decoding.prompt_conversation(body.get("prompt"), body.get("temperature"), top_p)


@dataclass(frozen=True, slots=True)
class CompletionFormat:
    """A maker's format whose responses hold text only."""

    raw_reason_by_finish: Mapping[FinishReason, str]
    encode_full_text: Callable[[str, Turn], Document]
    """The document of a text, with the finish reason and usage of the turn."""
    encode_piece: Callable[[str], Document]
    """The stream event of a piece of text."""
    encode_end: Callable[[Turn], Document]
    """The last event of a stream."""
    has_usage: bool = False
    """Whether the format has token counts."""
    has_response_id: bool = False
    """Whether a document has an id."""
    decode_prompt: Callable[[Fields], Conversation] = _decode_prompt_request
    """The conversation of a request body."""

    def decode_request(self, body: Fields) -> Conversation:
        """The conversation of a request body: one prompt, for most."""
        return self.decode_prompt(body)

    def capabilities(self, *, streams: bool, context: EncodeContext) -> Capabilities:
        """The capabilities of a response: text and a finish reason."""
        usage_fields = ("input", "output") if self.has_usage else ()
        return Capabilities(
            dialect="bedrock",
            is_streamed=streams,
            finish_by_raw_reason=FINISH_BY_REASON,
            raw_reason_by_finish=self.raw_reason_by_finish,
            id_prefix="" if self.has_response_id and not streams else None,
            includes_model=False,
            usage_fields=usage_fields,
            required_usage_fields=usage_fields,
            always_has_usage=self.has_usage,
        )

    def encode_whole_response(self, turn: Turn, _context: EncodeContext) -> Document:
        """The whole response."""
        return self.encode_full_text(turn.text, turn)

    def encode_events(self, turn: Turn, context: EncodeContext) -> Iterator[Document]:
        """The text in pieces, and an end event unless the turn failed."""
        yield from map(self.encode_piece, context.split_text(turn.text))
        if turn.failure is None:
            yield self.encode_end(turn)


def _input_token_count(turn: Turn | None) -> int | None:
    return None if turn is None or turn.usage is None else turn.usage.input


def _output_token_count(turn: Turn | None) -> int | None:
    return None if turn is None or turn.usage is None else turn.usage.output


def _raw_finish(turn: Turn | None) -> str | None:
    return None if turn is None else turn.finish_raw


_TITAN_FINISH_REASONS: Final = {
    FinishReason.STOP: "FINISH",
    FinishReason.LENGTH: "LENGTH",
    FinishReason.STOP_SEQUENCE: "STOP_CRITERIA_MET",
    FinishReason.CONTENT_FILTER: "CONTENT_FILTERED",
}
_LOWERCASE_FINISH_REASONS: Final = {FinishReason.STOP: "stop", FinishReason.LENGTH: "length"}
_COHERE_FINISH_REASONS: Final = {
    FinishReason.STOP: "COMPLETE",
    FinishReason.LENGTH: "MAX_TOKENS",
    FinishReason.CONTENT_FILTER: "ERROR_TOXIC",
    FinishReason.ERROR: "ERROR",
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
        "totalOutputTextTokenCount": _output_token_count(turn),
        "completionReason": _raw_finish(turn),
        "inputTextTokenCount": _input_token_count(turn),
    }


TITAN: Final = CompletionFormat(
    raw_reason_by_finish=_TITAN_FINISH_REASONS,
    encode_full_text=lambda text, turn: {
        "inputTextTokenCount": _input_token_count(turn),
        "results": [
            {
                "tokenCount": _output_token_count(turn),
                "outputText": text,
                "completionReason": turn.finish_raw,
            }
        ],
    },
    encode_piece=_encode_titan_piece,
    encode_end=lambda turn: _encode_titan_piece("", turn),
    has_usage=True,
    decode_prompt=_decode_titan_request,
)


def _encode_llama_piece(text: str, turn: Turn | None = None) -> Document:
    return {
        "generation": text,
        "prompt_token_count": _input_token_count(turn),
        "generation_token_count": _output_token_count(turn),
        "stop_reason": _raw_finish(turn),
    }


LLAMA: Final = CompletionFormat(
    raw_reason_by_finish=_LOWERCASE_FINISH_REASONS,
    encode_full_text=_encode_llama_piece,
    encode_piece=_encode_llama_piece,
    encode_end=lambda turn: _encode_llama_piece("", turn),
    has_usage=True,
)


def completion_format_with_text_list(list_field: str) -> CompletionFormat:
    """The format with text in a list of this name, as Mistral's and DeepSeek's."""

    def encode_text(text: str, turn: Turn | None = None) -> Document:
        return {list_field: [{"text": text, "stop_reason": _raw_finish(turn)}]}

    return CompletionFormat(
        raw_reason_by_finish=_LOWERCASE_FINISH_REASONS,
        encode_full_text=encode_text,
        encode_piece=encode_text,
        encode_end=lambda turn: encode_text("", turn),
    )


COHERE: Final = CompletionFormat(
    raw_reason_by_finish=_COHERE_FINISH_REASONS,
    encode_full_text=lambda text, turn: {
        "id": turn.id,
        "generations": [{"id": turn.id, "text": text, "finish_reason": turn.finish_raw}],
        "prompt": "",
    },
    encode_piece=lambda text: {"is_finished": False, "text": text},
    encode_end=lambda turn: {"is_finished": True, "finish_reason": turn.finish_raw},
    has_response_id=True,
)

COMMAND_R: Final = CompletionFormat(
    raw_reason_by_finish=_COHERE_FINISH_REASONS,
    encode_full_text=lambda text, turn: {
        "text": text, "finish_reason": turn.finish_raw, "chat_history": [],
    },
    encode_piece=lambda text: {"is_finished": False, "event_type": "text-generation", "text": text},
    encode_end=lambda turn: {
        "is_finished": True, "event_type": "stream-end", "finish_reason": turn.finish_raw,
    },
    decode_prompt=decode_v1_request,
)  # fmt: skip
