"""The InvokeModel formats of the model makers on Amazon Bedrock, and which model has which.

A model's id names its maker, after a region (`us.anthropic.claude-...`) or in an ARN.  The ARN of
an application inference profile names no maker: there the fields of the request decide.

Legacy text completions (Claude's, Titan's, the first of Cohere's) are decoded, and not encoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import request_decoding
from llm_proxy.dialects.anthropic import messages, requests
from llm_proxy.dialects.bedrock import converse, converse_requests
from llm_proxy.dialects.bedrock.completions import FINISH_BY_REASON
from llm_proxy.dialects.cohere import chat_v1
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.lenient_json import Fields, get_object
from llm_proxy.dialects.openai import chat_messages, chat_requests
from llm_proxy.dialects.openai.chat_messages import ChatMessageEncoder
from llm_proxy.dialects.openai.family import OPENAI_VARIANT
from llm_proxy.dialects.request_decoding import OptionNames
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import FinishReasons, UsageFields, WireFormat
from llm_proxy.errors import NotRepresentable, printable_excerpt
from llm_proxy.turns import FinishReason, Media, Reasoning, Refusal, Text, ToolCall, Turn


@dataclass(frozen=True, slots=True)
class ModelFormat:
    """How the responses of one maker's models are encoded, from prepared turns."""

    whole: WireFormat
    streamed: WireFormat
    """What a response can hold; the service counts tokens if the format does not require usage."""
    encode_whole: Callable[[Turn, EncodeContext], Document]
    """The document of a response."""
    encode_events: Callable[[Turn, EncodeContext], Iterator[Document]]
    """The events of a streamed response; for a failed turn, those before its end."""


_claude_wire_format: Final = partial(
    messages.wire_format, id_prefix="msg_bdrk_", call_id_prefix="toolu_bdrk_"
)
_CLAUDE: Final = ModelFormat(
    _claude_wire_format(stream=False),
    _claude_wire_format(stream=True),
    messages.encode_message,
    messages.encode_events,
)
"""As Anthropic's, without its `ping` events; errors are the service's."""

_NOVA: Final = ModelFormat(
    converse.nova_wire_format(stream=False),
    converse.nova_wire_format(stream=True),
    converse.encode_nova_message,
    converse.encode_nova_events,
)

_NO_USAGE: Final = UsageFields({})
_SENT_IN_TEXTS: Final = {FinishReason.STOP: "stop", FinishReason.LENGTH: "length"}

_CHAT_USAGE: Final = UsageFields(
    {"input": ("prompt_tokens",), "output": ("completion_tokens",), "total": ("total_tokens",)},
    required=("input", "output", "total"),
    is_required=True,
)


def _chat_wire_format(*, stream: bool) -> WireFormat:
    """As OpenAI's chats; a stream has usage in the service's metrics only."""
    return WireFormat(
        dialect="bedrock",
        is_streamed=stream,
        parts=frozenset((Text, Reasoning, Refusal, ToolCall, Media)),
        finish=FinishReasons(
            FINISH_BY_REASON,
            {
                FinishReason.STOP: "stop",
                FinishReason.LENGTH: "length",
                FinishReason.TOOL_CALLS: "tool_calls",
                FinishReason.CONTENT_FILTER: "content_filter",
            },
        ),
        usage=_NO_USAGE if stream else _CHAT_USAGE,
        convert_part=chat_messages.representable_part,
        id_prefix="chatcmpl-",
    )


def _chat_format(finish_field: str = "finish_reason") -> ModelFormat:
    """The format of OpenAI's chats; makers differ in the field of the finish reason."""

    def response(turn: Turn, kind: str, context: EncodeContext, **choice: object) -> Document:
        return {
            "id": turn.id,
            "object": kind,
            "created": context.created_unix_s,
            "model": turn.model,
            "choices": [{"index": 0, **choice}],
        }

    def encode_whole(turn: Turn, context: EncodeContext) -> Document:
        message = ChatMessageEncoder(OPENAI_VARIANT, context.split_text).encode_message(turn)
        fields = {"message": message, finish_field: turn.finish_raw}
        document = response(turn, "chat.completion", context, **fields)
        return {**document, "usage": _CHAT_USAGE.encode(turn.usage)}

    def encode_events(turn: Turn, context: EncodeContext) -> Iterator[Document]:
        kind = "chat.completion.chunk"
        for delta in ChatMessageEncoder(OPENAI_VARIANT, context.split_text).encode_deltas(turn):
            yield response(turn, kind, context, **{"delta": delta, finish_field: None})
        if turn.failure is None:
            yield response(turn, kind, context, **{"delta": {}, finish_field: turn.finish_raw})

    return ModelFormat(
        _chat_wire_format(stream=False), _chat_wire_format(stream=True), encode_whole, encode_events
    )


def _text_format(
    encode_event: Callable[[str, Turn | None], Document],
    encode_whole: Callable[[Turn], Document] | None = None,
    sent: Mapping[FinishReason, str] = _SENT_IN_TEXTS,
    usage: UsageFields = _NO_USAGE,
) -> ModelFormat:
    """A format that holds text only.

    A stream has an event for each piece of the text, encoded without the turn, and one for the end,
    with the turn and no text.  By default a document is an event of both.
    """

    def wire_format(*, stream: bool) -> WireFormat:
        return WireFormat(
            dialect="bedrock",
            is_streamed=stream,
            parts=frozenset((Text,)),
            finish=FinishReasons(FINISH_BY_REASON, sent),
            usage=usage,
        )

    def encode_document(turn: Turn, _context: EncodeContext) -> Document:
        return encode_whole(turn) if encode_whole else encode_event(turn.text, turn)

    def encode_events(turn: Turn, context: EncodeContext) -> Iterator[Document]:
        for piece in context.split_text(turn.text):
            yield encode_event(piece, None)
        if turn.failure is None:
            yield encode_event("", turn)

    return ModelFormat(
        wire_format(stream=False), wire_format(stream=True), encode_document, encode_events
    )


def _encode_llama(text: str, turn: Turn | None) -> Document:
    usage = turn.usage if turn else None
    return {
        "generation": text,
        "prompt_token_count": usage.input if usage else None,
        "generation_token_count": usage.output if usage else None,
        "stop_reason": turn.finish_raw if turn else None,
    }


_LLAMA: Final = _text_format(
    _encode_llama,
    usage=UsageFields(
        {"input": ("prompt_token_count",), "output": ("generation_token_count",)},
        required=("input", "output"),
        is_required=True,
    ),
)


def _text_list_format(list_field: str) -> ModelFormat:
    """The format with text in a list of this name."""
    return _text_format(
        lambda text, turn: {
            list_field: [{"text": text, "stop_reason": turn.finish_raw if turn else None}]
        }
    )


def _encode_command_r(text: str, turn: Turn | None) -> Document:
    if turn is None:
        return {"is_finished": False, "event_type": "text-generation", "text": text}
    return {"is_finished": True, "event_type": "stream-end", "finish_reason": turn.finish_raw}


_COMMAND_R: Final = _text_format(
    _encode_command_r,
    lambda turn: {"text": turn.text, "finish_reason": turn.finish_raw, "chat_history": []},
    {
        FinishReason.STOP: "COMPLETE",
        FinishReason.LENGTH: "MAX_TOKENS",
        FinishReason.CONTENT_FILTER: "ERROR_TOXIC",
        FinishReason.ERROR: "ERROR",
    },
)

_PROMPT_OPTION_NAMES: Final[OptionNames] = {"top_p": ("top_p", "p")}
_TITAN_OPTION_NAMES: Final[OptionNames] = {"top_p": ("topP",)}


def _decode_prompt(body: Fields) -> Conversation:
    return replace(
        request_decoding.prompt_conversation(body.get("prompt"), body),
        **request_decoding.decode_options(body, _PROMPT_OPTION_NAMES),
    )


def _decode_titan_request(body: Fields) -> Conversation:
    config = get_object(body, "textGenerationConfig")
    return replace(
        request_decoding.prompt_conversation(body.get("inputText"), config),
        **request_decoding.decode_options(config, _TITAN_OPTION_NAMES),
    )


_Entry = tuple[Callable[[Fields], Conversation], ModelFormat | None]
"""The decoder of requests, and the format of responses; None if they are not encoded."""

_CLAUDE_ENTRY: Final[_Entry] = (requests.decode_request, _CLAUDE)
_CLAUDE_COMPLETION_ENTRY: Final[_Entry] = (requests.decode_completion_request, None)
_NOVA_ENTRY: Final[_Entry] = (converse_requests.decode_request, _NOVA)
_TITAN_ENTRY: Final[_Entry] = (_decode_titan_request, None)
_LLAMA_ENTRY: Final[_Entry] = (_decode_prompt, _LLAMA)

_CLAUDE_PATTERN: Final = r"anthropic\."
_NOVA_PATTERN: Final = r"amazon\.nova-(?!canvas|reel|sonic|.*embed)"

_ENTRY_BY_MODEL_PATTERN: Final[tuple[tuple[str, _Entry], ...]] = (
    (_CLAUDE_PATTERN, _CLAUDE_ENTRY),
    (_NOVA_PATTERN, _NOVA_ENTRY),
    (r"amazon\.titan-(?:text|tg1)", _TITAN_ENTRY),
    (r"meta\.llama", _LLAMA_ENTRY),
    (r"mistral\.(?:mistral-7b|mixtral|mistral-(?:small|large)-2402)",
     (_decode_prompt, _text_list_format("outputs"))),
    (r"mistral\.", (chat_requests.decode_request, _chat_format("stop_reason"))),
    (r"cohere\.command-(?:r|a)", (chat_v1.decode_request, _COMMAND_R)),
    (r"cohere\.command", (_decode_prompt, None)),
    (r"deepseek\.r1", (_decode_prompt, _text_list_format("choices"))),
    (r"(?:ai21\.jamba|deepseek|google|minimax|moonshotai?|nvidia|openai|qwen|writer|zai)\b",
     (chat_requests.decode_request, _chat_format())),
)  # fmt: skip
"""In matching order."""

_TOP_K_PATHS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (_CLAUDE_PATTERN, ("top_k",)),
    (_NOVA_PATTERN, ("inferenceConfig", "topK")),
)
"""The documented places of top-k in the additional fields of a Converse request."""

_ENTRY_BY_REQUEST_FIELD: Final[tuple[tuple[str, _Entry], ...]] = (
    ("anthropic_version", _CLAUDE_ENTRY),
    ("max_tokens_to_sample", _CLAUDE_COMPLETION_ENTRY),
    ("inferenceConfig", _NOVA_ENTRY),
    ("schemaVersion", _NOVA_ENTRY),
    ("textGenerationConfig", _TITAN_ENTRY),
    ("max_gen_len", _LLAMA_ENTRY),
)
"""Request fields that only one maker's models have."""

_MAX_SHOWN_CHARS: Final = 100
"""The limit for a model id in an error message."""


def decode_request(model: str, body: Fields) -> Conversation | None:
    """The conversation of a request in the model's own format; None if that is unknown."""
    entry = _entry_of_model(model, body)
    return entry and entry[0](body)


def format_of_model(model: str, body: Fields) -> ModelFormat:
    """The format of a model, by its id or the request.

    Raises `NotRepresentable` for an unknown one, and for a legacy text completion.
    """
    entry = _entry_of_model(model, body)
    shown_model = printable_excerpt(model, _MAX_SHOWN_CHARS)
    if entry is None:
        raise NotRepresentable(
            f"bedrock: the response format of model {shown_model} is unknown; use Converse"
        )
    if entry[1] is None:
        raise NotRepresentable(
            f"bedrock: cannot generate legacy text completions of {shown_model}; use Converse, or "
            "send `messages` if the model has a chat format"
        )
    return entry[1]


def requires_signed_reasoning(model: str) -> bool:
    """Whether the model requires signatures on reasoning in the history (Anthropic)."""
    return _matches_model_pattern(_CLAUDE_PATTERN, model)


def top_k_path(model: str) -> tuple[str, ...]:
    """The path of top-k in the additional fields of Converse; empty for models without one."""
    paths = (path for pattern, path in _TOP_K_PATHS if _matches_model_pattern(pattern, model))
    return next(paths, ())


def _entry_of_model(model: str, body: Fields) -> _Entry | None:
    for pattern, entry in _ENTRY_BY_MODEL_PATTERN:
        if _matches_model_pattern(pattern, model):
            is_completion = entry is _CLAUDE_ENTRY and "prompt" in body
            return _CLAUDE_COMPLETION_ENTRY if is_completion else entry
    return next((entry for name, entry in _ENTRY_BY_REQUEST_FIELD if name in body), None)


def _matches_model_pattern(pattern: str, model: str) -> bool:
    return re.search(rf"(?:^|[./]){pattern}", model) is not None
