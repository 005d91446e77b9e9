"""The dialect `openai-completions`: legacy text completions.

Many servers still have it: vLLM, llama.cpp, Together, DeepSeek and Mistral (fill-in-the-middle).
Writer's stream differs: events of `{"value": ...}` without IDs, choices or an end, so nothing can
prove it complete.

A request has one prompt.  One text of the user is the prompt itself; any other conversation is a
transcript, in which each message is a block that begins with its speaker:

    Be brief.

    User: Hello?

    Assistant:

The system prompt has no speaker, and the last block is the place of the response.  The decoder does
not split a transcript, and the encoder adds no stop sequences: a base model may go on with `User:`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects import request_decoding, request_encoding
from llm_proxy.dialects.lenient_json import (
    Fields,
    get_objects,
    get_string,
    parse_object,
    str_or_empty,
)
from llm_proxy.dialects.openai import family
from llm_proxy.dialects.openai.choices import ChoicesDecoder, ChoicesDialect, ResponseOptions
from llm_proxy.dialects.request_decoding import OptionNames
from llm_proxy.dialects.request_encoding import PartKinds
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Request
from llm_proxy.turns import Part, Reasoning, Refusal, Text, Turn

_FIM_PATH: Final = "/fim/completions"
"""Fill-in-the-middle completions, which respond with messages: not this dialect."""


_DIALECT: Final = "openai-completions"

_OPTION_NAMES: Final[OptionNames] = {
    "max_tokens": ("max_tokens",),
    "seed": ("seed",),
    "stop_sequences": ("stop",),
}
_PART_KINDS: Final[PartKinds] = {
    "system": (Text,),
    "user": (Text,),
    "assistant": (Text, Refusal, Reasoning),
}
"""Those of a transcript; reasoning is left out."""
_NO_TOOL_CHOICES: Final = (None, "auto", "none")
"""The tool choices that a model without tools fulfils."""
_SPEAKERS: Final = {"user": "User", "assistant": "Assistant"}


def _encode_prompt(conversation: Conversation) -> str:
    """The text of the user if there is nothing else, or a transcript."""
    system, messages = request_encoding.split_system_messages(_DIALECT, conversation)
    match messages:
        case (RequestMessage(role="user") as message,) if not system:
            return message.text
        case _:
            pass
    blocks = [system] if system else []
    for message in messages:
        texts = [part.text for part in message.parts if isinstance(part, Text | Refusal)]
        if text := "\n".join(texts):
            # A model that continues a transcript begins with the space itself.
            space = "" if text[0].isspace() else " "
            blocks.append(f"{_SPEAKERS[message.role]}:{space}{text}")
    return "\n\n".join([*blocks, f"{_SPEAKERS['assistant']}:"])


class _CompletionsDecoder(ChoicesDecoder):
    """Decodes Writer's events, too: each is a piece of the first choice."""

    def feed_document(self, document: Fields) -> list[Part]:
        """Decode a chunk, an event of Writer's, or the document of a response."""
        if self._is_streamed and (text := get_string(document, "value")):
            document = {"choices": [{"index": 0, "text": text}], **document}
        return super().feed_document(document)


class OpenAICompletions(ChoicesDialect):
    """The dialect `openai-completions`."""

    name = _DIALECT
    path = "/completions"
    prompt_field = ("prompt", "")
    object_types = ("text_completion", "text_completion")
    id_prefix = "cmpl-"

    def matches(self, request: Request) -> bool:
        """Whether it is a POST to `.../completions` behind any prefix, and not a chat."""
        return (
            request.method == "POST"
            and request.path.endswith(self.path)
            and not request.path.endswith(_FIM_PATH)
            and family.CHAT_PATH.fullmatch(request.path) is None
        )

    def decode_request(self, request: Request) -> Conversation | None:
        """The prompt as one user message; several prompts become one message."""
        body = parse_object(request.body)
        if not body:
            return None
        return replace(
            request_decoding.prompt_conversation(body.get("prompt"), body),
            model=self.model(request),
            **request_decoding.decode_options(body, _OPTION_NAMES),
        )

    def encode_request(
        self, conversation: Conversation, *, stream: bool = True, provider: str = ""
    ) -> Request:
        """The request to `/v1/completions`; a stream ends with the usage."""
        conversation = request_encoding.prepared_conversation(_DIALECT, conversation, _PART_KINDS)
        request_encoding.refuse_stored_state(_DIALECT, conversation)
        for option in ("tools", "response_schema"):
            if getattr(conversation, option) not in ((), None):
                raise request_encoding.refusal(_DIALECT, option)
        if request_encoding.checked_tool_choice(_DIALECT, conversation) not in _NO_TOOL_CHOICES:
            raise request_encoding.refusal(_DIALECT, "tool_choice")
        body: Document = {"model": conversation.model, "prompt": _encode_prompt(conversation)}
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        body |= request_encoding.encode_options(_DIALECT, conversation, _OPTION_NAMES)
        return request_encoding.post_request(_DIALECT, f"/v1{self.path}", body, conversation)

    def message_of_choice(self, choice: Fields, *, streamed: bool) -> Fields:
        """Its text, with an echoed prompt, as the content of a message."""
        return {"content": get_string(choice, "text")}

    def response_decoder(self, codec_name: str) -> ChoicesDecoder:
        """A decoder of chunks, or of the document of a response that does not stream."""
        return _CompletionsDecoder(self.message_of_choice, streamed=codec_name == "sse")

    def output_chars(self, codec: str, message: bytes) -> int:
        """The characters of text in its choices, or in an event of Writer's stream."""
        if codec != "sse":
            return 0
        fields = family.decode_event(message)
        texts = [choice.get("text") for choice in get_objects(fields, "choices")]
        return sum(len(str_or_empty(text)) for text in (*texts, fields.get("value")))

    def choice_with_content(self, index: int, content: Any, *, streamed: bool) -> Document:
        """A choice with its text, or with a piece of it."""
        return {"text": content, "index": index}

    def encode_content(self, turn: Turn, options: ResponseOptions) -> Iterator[str]:
        """The whole text, or its pieces; the last is empty.

        A stream without parts has another empty piece where nothing finishes it.
        """
        if not options.stream:
            yield turn.text
            return
        if not turn.parts and turn.finish is None:
            yield ""
        yield from options.context.split_text(turn.text)
        yield ""
