"""Exports a recorded response in another dialect."""

from __future__ import annotations

from typing import Final

from llm_proxy import http_heads
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.openai.provider_variants import SPOKEN
from llm_proxy.errors import UsageError
from llm_proxy.transcoding import TranscodedResponse, TranscodeOptions

_SHOWN: Final = 8
"""Things left out that are named."""


def check_options(transcode_options: TranscodeOptions) -> None:
    """Raise `UsageError` for what could not be told as it is asked for."""
    if transcode_options.provider and transcode_options.dialect not in SPOKEN:
        spoken = ", ".join(SPOKEN)
        raise UsageError(
            f"--provider chooses among those who speak {spoken}: not {transcode_options.dialect}"
        )
    if not transcode_options.model.isprintable():
        raise UsageError("--model must be printable")


def http_bytes(response: DialectResponse, *, with_head: bool) -> bytes:
    """The answer as it would be sent, but for HTTP's own framing."""
    body = b"".join(response.messages)
    lines = "\r\n".join((*http_heads.head_lines(response.head), "", "")).encode("latin-1")
    return lines + body if with_head else body


def lost_parts(transcoded_response: TranscodedResponse) -> str:
    """What the dialect has no words for."""
    if not transcoded_response.losses:
        return ""
    more = (
        f", and {len(transcoded_response.losses) - _SHOWN} more"
        if len(transcoded_response.losses) > _SHOWN
        else ""
    )
    return f"; left out: {', '.join(transcoded_response.losses[:_SHOWN])}{more}"
