"""Exports a recorded response in another dialect."""

from __future__ import annotations

from typing import Final

from llm_proxy import http_heads
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.openai.provider_variants import DIALECTS_WITH_VARIANTS
from llm_proxy.errors import UsageError
from llm_proxy.transcoding import TranscodedResponse, TranscodeOptions

_MAX_SHOWN_LOSSES: Final = 8
"""How many losses are named."""


def check_transcode_options(transcode_options: TranscodeOptions) -> None:
    """Raise `UsageError` for a provider that the dialect has not, or an unprintable model."""
    if transcode_options.provider and transcode_options.dialect_name not in DIALECTS_WITH_VARIANTS:
        dialect_names = ", ".join(DIALECTS_WITH_VARIANTS)
        raise UsageError(
            f"--provider chooses among those who speak {dialect_names}: not "
            f"{transcode_options.dialect_name}"
        )
    if not transcode_options.model.isprintable():
        raise UsageError("--model must be printable")


def response_bytes(response: DialectResponse, *, with_head: bool) -> bytes:
    """The body, or head and body, without HTTP's framing (chunks)."""
    body = b"".join(response.framed_messages)
    lines = "\r\n".join((*http_heads.head_lines(response.head), "", "")).encode("latin-1")
    return lines + body if with_head else body


def losses_note(transcoded_response: TranscodedResponse) -> str:
    """What the dialect cannot represent, as the end of a sentence; empty where nothing is lost."""
    if not transcoded_response.losses:
        return ""
    more = (
        f", and {len(transcoded_response.losses) - _MAX_SHOWN_LOSSES} more"
        if len(transcoded_response.losses) > _MAX_SHOWN_LOSSES
        else ""
    )
    return f"; left out: {', '.join(transcoded_response.losses[:_MAX_SHOWN_LOSSES])}{more}"
