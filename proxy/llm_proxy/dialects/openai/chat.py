"""The dialect `openai-chat`: Chat Completions of OpenAI and compatible servers.

    role ( reasoning | text | refusal | audio | image | call )* finish [usage] [DONE]

A stream is SSE without event names: chunks of deltas, one `finish_reason` per choice, a usage
chunk without choices if requested, and `data: [DONE]`.  Real servers omit the `[DONE]`
(Perplexity, Hugging Face), name an event `error` (Groq), put an `error` beside empty choices
(OpenRouter) or write a line `error: {...}` that is not SSE (GPUStack, old llama.cpp).
Each of these ends a stream.  No field that clients accumulate is repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import response_encoding
from llm_proxy.dialects.lenient_json import Fields, get_object, parse_object, selected_fields
from llm_proxy.dialects.openai import chat_messages, chat_requests, family
from llm_proxy.dialects.openai.chat_messages import MESSAGE_METADATA_FIELDS, ChatMessageEncoder
from llm_proxy.dialects.openai.choices import FINISH, ChoicesDialect, ResponseOptions
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.dialects.wire import WireFormat
from llm_proxy.exchange import Request
from llm_proxy.framing import sse
from llm_proxy.turns import FinishReason, Media, Reasoning, Refusal, Text, ToolCall, Turn


class OpenAIChat(ChoicesDialect):
    """The dialect `openai-chat`."""

    name = "openai-chat"
    id_json_paths = (
        "$.messages[*].id",
        "$.messages[*].tool_calls[*].id",
        "$.messages[*].tool_call_id",
    )
    tool_result_json_paths = (
        "$.messages[role=tool].content",
        "$.messages[role=function].content",
    )
    path = "/chat/completions"
    prompt_field = ("messages", [])
    object_types = ("chat.completion", "chat.completion.chunk")
    id_prefix = "chatcmpl-"
    part_kinds = frozenset((Text, Reasoning, Refusal, ToolCall, Media))

    def matches(self, request: Request) -> bool:
        """Whether it is a POST to `.../chat/completions` or similar, behind any prefix."""
        return request.method == "POST" and family.CHAT_PATH.fullmatch(request.path) is not None

    def decode_request(self, request: Request) -> Conversation | None:
        """The messages, tools and options of the body; None if it is not an object."""
        body = parse_object(request.body)
        if not body:
            return None
        return replace(chat_requests.decode_request(body), model=self.model(request))

    def encode_request(
        self, conversation: Conversation, *, stream: bool = True, provider: str = ""
    ) -> Request:
        """The request to `.../chat/completions`; a stream ends with the usage."""
        return chat_requests.encode_request(conversation, stream=stream, provider=provider)

    def message_of_choice(self, choice: Fields, *, streamed: bool) -> Fields:
        """The `delta` of a stream, else the `message`; Perplexity always sends both."""
        preferred, other = ("delta", "message") if streamed else ("message", "delta")
        return get_object(choice, preferred if preferred in choice else other)

    def wire_format_with(self, options: ResponseOptions, turns: Sequence[Turn]) -> WireFormat:
        """That of the provider's variant.

        A turn with a `Refusal` finishes with `stop`: OpenAI's own client raises at
        `content_filter`.
        """
        has_refusal = any(isinstance(part, Refusal) for turn in turns for part in turn.parts)
        sent = {
            **FINISH.sent,
            FinishReason.TOOL_CALLS: "function_call" if options.uses_functions else "tool_calls",
            **({FinishReason.REFUSAL: "stop"} if has_refusal else {}),
        }
        wire_format = super().wire_format_with(options, turns)
        return replace(
            wire_format,
            finish=replace(FINISH, sent=sent),
            metadata=(*wire_format.metadata, *MESSAGE_METADATA_FIELDS),
            convert_part=chat_messages.representable_part,
            has_signatures=chat_messages.has_reasoning_details(options.variant),
            merged=chat_messages.merged_kinds(options.variant),
        )

    def choice_with_content(self, index: int, content: Any, *, streamed: bool) -> Document:
        """A choice with its message, or with a delta."""
        return {"index": index, "delta" if streamed else "message": content}

    def encode_content(self, turn: Turn, options: ResponseOptions) -> Iterator[Document]:
        """The whole message, or its deltas; the last has the metadata of the message."""
        encoder = ChatMessageEncoder(
            options.variant, options.context.split_text, options.uses_functions
        )
        metadata = selected_fields(turn.metadata, MESSAGE_METADATA_FIELDS)
        if options.stream:
            yield from encoder.encode_deltas(turn)
            yield metadata
        else:
            yield {**encoder.encode_message(turn), **metadata}

    def encode_events(self, turns: Sequence[Turn], options: ResponseOptions) -> Iterator[bytes]:
        """The events of a stream, after the provider's preamble."""
        if options.variant.preamble_chunk is not None:
            preamble = dict(options.variant.preamble_chunk)
            yield sse.encode_event(response_encoding.single_line_json(preamble))
        yield from super().encode_events(turns, options)
