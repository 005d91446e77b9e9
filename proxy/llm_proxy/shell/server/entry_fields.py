"""Fills a journal entry from its request and response."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Final

from llm_proxy import http_heads
from llm_proxy.credentials import credential_spellings
from llm_proxy.errors import printable
from llm_proxy.exchange import Request, ResponseHead, header_value
from llm_proxy.redaction import Redactor, displayable_target
from llm_proxy.routing import RoutedRequest
from llm_proxy.scenario.scripted_response import ScriptedResponse
from llm_proxy.shell.server.journal import JournalEntry
from llm_proxy.shell.server.retries import sdk_retry_count

log: Final = logging.getLogger("llm_proxy")

LARGE: Final = 16 * 1024
"""Bytes of a request whose key takes a while."""
LONGEST_PATH: Final = 200
"""Characters of a path in the log, and of what else came from outside."""


def redact_scripted_response(
    direction: ScriptedResponse, routed: RoutedRequest
) -> ScriptedResponse:
    """A direction whose words may be stored: they quote the request."""
    return replace(
        direction,
        unsuccessful=storable_text(direction.unsuccessful, routed.decompressed),
        warnings=tuple(
            storable_text(warning, routed.decompressed) for warning in direction.warnings
        ),
        notes=tuple(storable_text(note, routed.decompressed) for note in direction.notes),
    )


def storable_path(request: Request) -> str:
    """The path of a request as it may be stored before it is routed."""
    return storable_text(displayable_target(request.path), request)


def storable_text(text: str, request: Request) -> str:
    """A text that quotes a request, as it may be stored."""
    secrets, whole = credential_spellings(request), text.encode("utf-8", "replace")
    if not any(secret in whole for secret in secrets):  # nearly always
        return text
    return Redactor(secrets).redact(whole).decode()


def log_faults(routed: RoutedRequest, entry: JournalEntry) -> None:
    """Say what was injected, and what was meant to be and has no meaning there."""
    text = f"{routed.request.method} {printable(routed.stored_request.path, LONGEST_PATH)}"
    for fault in entry.faults:
        skipped = printable(fault.skipped, LONGEST_PATH)
        content = f"not injected, {skipped}" if skipped else "injected"
        log.info("%s: fault %s: %s", text, printable(fault.rule, LONGEST_PATH), content)


def set_response_fields(entry: JournalEntry, head: ResponseHead) -> None:
    """What a head tells the client."""
    entry.status = head.status
    entry.retry_after_ms = http_heads.retry_after_ms(head.headers)
    should = header_value(head.headers, "x-should-retry")
    entry.should_retry = None if should is None else should.lower() == "true"


async def set_request_fields(entry: JournalEntry, routed: RoutedRequest) -> None:
    """What is asked, and of whom."""
    if len(routed.request.body) > LARGE:  # other streams need not wait for its key
        await asyncio.to_thread(lambda: routed.key)
    entry.path = routed.stored_request.path
    entry.provider = routed.provider
    entry.dialect = routed.dialect.name
    entry.model = routed.model
    entry.key = routed.key[:16]
    entry.streams = routed.dialect.streams(routed.decompressed)
    entry.retry_count = sdk_retry_count(routed)
