"""Writes the cassettes of the benchmarks, which nobody recorded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from llm_proxy.cassette import CassetteEncoder, CassetteMeta, StoredRequest
from llm_proxy.exchange import Ending, Read, ResponseHead
from llm_proxy.matching import KEY_RULES_VERSION, request_key
from llm_proxy.redaction import REDACTION_RULES_VERSION
from llm_proxy.shell.library.library import Library


def write_cassette(library: Path, request_body: bytes, reads: Sequence[Read]) -> Path:
    """Write the cassette of a chat; returns its file."""
    request = StoredRequest("POST", "/v1/chat/completions", "", (), request_body)
    key = request_key("openai", request)
    meta = CassetteMeta(
        "bench", "now", "openai-chat", "openai", "bench", "default", key, KEY_RULES_VERSION,
        REDACTION_RULES_VERSION,
    )  # fmt: skip
    path = Library(library).path_for_take(meta, request, 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_cassette(meta, request, reads))
    return path


def encode_cassette(meta: CassetteMeta, request: StoredRequest, reads: Sequence[Read]) -> bytes:
    """The content of a cassette with a stream of these reads."""
    encoder = CassetteEncoder("sse")
    head = ResponseHead(200, "OK", (("Content-Type", "text/event-stream"),), "chunked")
    lines = [encoder.encode_opening(meta, request), encoder.encode_head(head, 0.0)]
    lines += map(encoder.encode_completed_messages, reads)
    lines.append(encoder.encode_ending(Ending.CLEAN, reads[-1].at_ms))
    return b"".join(lines)
