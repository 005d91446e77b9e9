"""How the chat requests of OpenAI-compatible providers differ from OpenAI's.

A row is what the provider's own SDK sends, or OpenAI's as its documentation shows; what neither has
is refused.  The provider's responses are in `family.VARIANT_BY_PROVIDER`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Literal

from llm_proxy.dialects import request_encoding
from llm_proxy.dialects.request_decoding import OptionNames
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Media

_MISTRAL_CALL_ID: Final = re.compile("[a-zA-Z0-9]{9}")

MediaEncoder = Callable[[Media], Document | None]
"""Encodes media of one kind; None if the provider does not take it inline, or by URL."""


def _image(media: Media) -> Document:
    return {"type": "image_url", "image_url": {"url": request_encoding.data_url(media)}}


def _video(media: Media) -> Document:
    return {"type": "video_url", "video_url": {"url": request_encoding.data_url(media)}}


def _audio(media: Media) -> Document | None:
    if not media.base64:
        return None
    audio = {"data": media.base64, "format": request_encoding.audio_format(media)}
    return {"type": "input_audio", "input_audio": audio}


def _file(media: Media) -> Document | None:
    _, _, subtype = media.media_type.partition("/")
    if not (media.base64 and subtype):
        return None
    file = {"filename": f"file.{subtype}", "file_data": request_encoding.data_url(media)}
    return {"type": "file", "file": file}


def _file_or_url(media: Media) -> Document | None:
    return _file(media) if media.base64 else {"type": "file", "file": {"file_data": media.url}}


def _audio_text(media: Media) -> Document:
    return {"type": "input_audio", "input_audio": media.base64 or media.url}


def _document_url(media: Media) -> Document:
    return {"type": "document_url", "document_url": request_encoding.data_url(media)}


def _mistral_call_id(call_id: str) -> str:
    """The id if Mistral accepts it, else nine characters that depend on it alone."""
    if _MISTRAL_CALL_ID.fullmatch(call_id):
        return call_id
    return sha256(call_id.encode()).hexdigest()[:9]


_OPENAI_OPTIONS: Final[OptionNames] = {
    "max_tokens": ("max_completion_tokens",),
    "seed": ("seed",),
    "stop_sequences": ("stop",),
}
_SAMPLING_OPTIONS: Final[OptionNames] = {
    "top_k": ("top_k",),
    "repeat_penalty": ("repetition_penalty",),
}
_OPENAI_MEDIA: Final[Mapping[str, MediaEncoder]] = {
    "image": _image,
    "audio": _audio,
    "file": _file,
}


@dataclass(frozen=True, slots=True)
class RequestVariant:
    """The deviations of one provider's requests; the defaults are OpenAI's."""

    path: str = "/v1/chat/completions"
    option_names: OptionNames = field(default_factory=lambda: _OPENAI_OPTIONS)
    media_encoders: Mapping[str, MediaEncoder] = field(default_factory=lambda: _OPENAI_MEDIA)
    """By `image`, `audio`, `video`, and `file` for every other kind."""
    reasoning_field: Literal["", "reasoning_content", "reasoning", "details", "blocks"] = ""
    """Where it takes reasoning back, as in `ProviderVariant`; empty if it does not."""
    requires_reasoning_with_calls: bool = False
    """Whether a message with calls must have reasoning, if only an empty one."""
    has_refusals: bool = False
    """Whether the model's messages can have a `refusal`; else it is sent as text."""
    has_stream_options: bool = True
    """Whether a stream is requested with its usage; else it always has usage."""
    always_has_stream: bool = False
    """Whether `stream` is sent when it is false, too."""
    required_choice: Literal["required", "any"] = "required"
    """The tool choice that requires a call."""
    has_forced_tools: bool = True
    """Whether the tool choice can be one tool."""
    requires_parameters: bool = False
    """Whether a tool must have a schema, if only an empty one."""
    has_response_schemas: bool = True
    """Whether a response can be given a schema; else only that it is JSON."""
    has_result_names: bool = False
    """Whether the result of a call has the name of the tool."""
    has_prefixes: bool = False
    """Whether the model's messages have a `prefix`: true for a last one, which it continues."""
    text_after_results: str = ""
    """The model's message between results and a user's message, where that may not follow them."""
    encode_call_id: Callable[[str], str] = str
    """The id of a call as the provider accepts it."""


OPENAI_REQUESTS: Final = RequestVariant(has_refusals=True)

REQUEST_VARIANT_BY_PROVIDER: Final[Mapping[str, RequestVariant]] = {
    "deepseek": RequestVariant(
        path="/chat/completions",
        option_names={"max_tokens": ("max_tokens",), "stop_sequences": ("stop",)},
        media_encoders={"image": _image},
        reasoning_field="reasoning_content",
        # It thinks by default, and then refuses calls without reasoning, also those of others.
        requires_reasoning_with_calls=True,
        has_response_schemas=False,
    ),
    "groq": RequestVariant(
        path="/openai/v1/chat/completions",
        media_encoders={"image": _image},
        reasoning_field="reasoning",
        has_stream_options=False,
    ),
    "llamacpp": RequestVariant(
        # Old builds ignore `max_completion_tokens`, and all of them a choice that is no word.
        option_names={
            **_OPENAI_OPTIONS,
            "max_tokens": ("max_tokens",),
            "top_k": ("top_k",),
            "repeat_penalty": ("repeat_penalty",),
        },
        media_encoders={"image": _image, "audio": _audio},
        reasoning_field="reasoning_content",
        has_forced_tools=False,
    ),
    "mistral": RequestVariant(
        option_names={
            **_SAMPLING_OPTIONS,
            "max_tokens": ("max_tokens",),
            "seed": ("random_seed",),
            "stop_sequences": ("stop",),
        },
        media_encoders={"image": _image, "audio": _audio_text, "file": _document_url},
        reasoning_field="blocks",
        has_stream_options=False,
        always_has_stream=True,
        required_choice="any",
        requires_parameters=True,
        has_result_names=True,
        has_prefixes=True,
        text_after_results="OK",
        encode_call_id=_mistral_call_id,
    ),
    "openrouter": RequestVariant(
        path="/api/v1/chat/completions",
        option_names={**_OPENAI_OPTIONS, **_SAMPLING_OPTIONS},
        media_encoders={"image": _image, "audio": _audio, "video": _video, "file": _file_or_url},
        reasoning_field="details",
        has_refusals=True,
    ),
    "vllm": RequestVariant(
        option_names={**_OPENAI_OPTIONS, **_SAMPLING_OPTIONS},
        media_encoders={"image": _image, "audio": _audio, "video": _video},
        reasoning_field="reasoning",
    ),
    "xai": RequestVariant(media_encoders={"image": _image}, reasoning_field="reasoning_content"),
}


def request_variant(provider: str) -> RequestVariant:
    """The deviations of this provider; OpenAI's own for an unknown one."""
    return REQUEST_VARIANT_BY_PROVIDER.get(provider, OPENAI_REQUESTS)
