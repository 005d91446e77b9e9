"""The dialect `openai-completions`: legacy text completions.

Many servers still have it: vLLM, llama.cpp, Together, DeepSeek and Mistral (fill-in-the-middle).
Writer's stream differs: events of `{"value": ...}` without IDs, choices or an end, so nothing can
prove it complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from llm_proxy.conversation import Conversation
from llm_proxy.dialects import request_decoding
from llm_proxy.dialects.base import DialectResponse
from llm_proxy.dialects.lenient_json import (
    Fields,
    get_objects,
    get_string,
    join_pieces,
    parse_object,
    str_or_empty,
)
from llm_proxy.dialects.openai import family
from llm_proxy.dialects.openai.choices import ChoicesDialect, ResponseOptions
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.exchange import Request
from llm_proxy.turns import Text, Turn

_FIM_PATH: Final = "/fim/completions"
"""Fill-in-the-middle completions, which respond with messages: not this dialect."""


class OpenAICompletions(ChoicesDialect):
    """The dialect `openai-completions`."""

    name = "openai-completions"
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
        return request_decoding.prompt_conversation(body.get("prompt"), body) if body else None

    def message_of_choice(self, choice: Fields, *, streamed: bool) -> Fields:
        """Its text, with an echoed prompt, as the content of a message."""
        return {"content": get_string(choice, "text")}

    def decode_response(self, response: DialectResponse) -> tuple[Turn, ...]:
        """One turn per choice, by index; several prompts have n choices each.

        Writer's stream is one turn, or none if it has no text.
        """
        turns = super().decode_response(response)
        if turns or response.codec_name != "sse":
            return turns
        events = map(family.decode_event, response.framed_messages)
        text = join_pieces(get_string(event, "value") for event in events)
        return (Turn((Text(text),)),) if text else ()

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
