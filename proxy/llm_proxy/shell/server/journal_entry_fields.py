"""Fills a journal entry from its request and response."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Final

from llm_proxy import http_heads
from llm_proxy.credentials import request_credential_spellings
from llm_proxy.errors import printable_excerpt
from llm_proxy.exchange import Request, ResponseHead, header_value
from llm_proxy.journal_document import JournalEntry
from llm_proxy.redaction import Redactor, displayable_target
from llm_proxy.routing import RoutedRequest
from llm_proxy.scenario.scripted_response import ScriptedResponse
from llm_proxy.shell.server.retries import sdk_retry_count

log: Final = logging.getLogger("llm_proxy")

OFFLOAD_BODY_BYTES: Final = 16 * 1024
"""Request body size above which keys, conversations and texts are computed in a thread."""
MAX_LOGGED_CHARS: Final = 200
"""Maximum length in the log of a path, and of other text from outside."""


def redact_scripted_response(
    scripted_response: ScriptedResponse, routed: RoutedRequest
) -> ScriptedResponse:
    """The scripted response with the request's secrets redacted from its messages."""
    return replace(
        scripted_response,
        session_failure_reason=redacted_text(
            scripted_response.session_failure_reason, routed.decompressed_request
        ),
        warnings=tuple(
            redacted_text(warning, routed.decompressed_request)
            for warning in scripted_response.warnings
        ),
        journal_notes=tuple(
            redacted_text(note, routed.decompressed_request)
            for note in scripted_response.journal_notes
        ),
    )


def redacted_path(request: Request) -> str:
    """The path of a request that is not routed yet, with secrets redacted."""
    return redacted_text(displayable_target(request.path), request)


def redacted_text(text: str, request: Request) -> str:
    """`text`, which may quote the request, with the request's secrets redacted."""
    secrets, encoded = request_credential_spellings(request), text.encode("utf-8", "replace")
    if not any(secret in encoded for secret in secrets):  # nearly always
        return text
    return Redactor(secrets).redact(encoded).decode()


def log_faults(routed: RoutedRequest, entry: JournalEntry) -> None:
    """Log the faults that were injected, and those that were skipped as not applicable."""
    request_line = (
        f"{routed.request.method} {printable_excerpt(routed.stored_request.path, MAX_LOGGED_CHARS)}"
    )
    for fault in entry.faults:
        skipped = printable_excerpt(fault.skipped, MAX_LOGGED_CHARS)
        outcome = f"not injected, {skipped}" if skipped else "injected"
        log.info(
            "%s: fault %s: %s",
            request_line,
            printable_excerpt(fault.rule, MAX_LOGGED_CHARS),
            outcome,
        )


def set_response_fields(entry: JournalEntry, head: ResponseHead) -> None:
    """Set the fields that come from the response head."""
    entry.status = head.status
    entry.retry_after_ms = http_heads.retry_after_ms(head.headers)
    should_retry = header_value(head.headers, "x-should-retry")
    entry.should_retry = None if should_retry is None else should_retry.lower() == "true"


async def set_request_fields(entry: JournalEntry, routed: RoutedRequest) -> None:
    """Set the fields that come from the request."""
    if (
        len(routed.request.body) > OFFLOAD_BODY_BYTES
    ):  # the key takes long: do not block other streams
        await asyncio.to_thread(lambda: routed.key)
    entry.path = routed.stored_request.path
    entry.provider = routed.provider
    entry.dialect = routed.dialect.name
    entry.model = routed.model
    entry.key = routed.key[:16]
    entry.streams = routed.dialect.streams(routed.decompressed_request)
    entry.retry_count = sdk_retry_count(routed)
