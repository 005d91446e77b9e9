"""What an entry of the journal is told of its request and its answer."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Final

from llm_proxy import http_heads
from llm_proxy.credentials import credentials
from llm_proxy.errors import printable
from llm_proxy.exchange import Head, Request, header
from llm_proxy.redaction import Redactor, shown_target
from llm_proxy.routing import Call
from llm_proxy.scenario.scripted_response import Direction
from llm_proxy.shell.server.journal import Entry
from llm_proxy.shell.server.retries import retry_count

log: Final = logging.getLogger("llm_proxy")

LARGE: Final = 16 * 1024
"""Bytes of a request whose key takes a while."""
LONGEST_PATH: Final = 200
"""Characters of a path in the log, and of what else came from outside."""


def without_secrets(direction: Direction, call: Call) -> Direction:
    """A direction whose words may be stored: they quote the request."""
    return replace(
        direction,
        unsuccessful=text_of(direction.unsuccessful, call.plain),
        warnings=tuple(text_of(it, call.plain) for it in direction.warnings),
        notes=tuple(text_of(it, call.plain) for it in direction.notes),
    )


def path_of(request: Request) -> str:
    """The path of a request as it may be stored before it is routed."""
    return text_of(shown_target(request.path), request)


def text_of(text: str, request: Request) -> str:
    """A text that quotes a request, as it may be stored."""
    secrets, whole = credentials(request), text.encode("utf-8", "replace")
    if not any(it in whole for it in secrets):  # nearly always
        return text
    return Redactor(secrets).whole(whole).decode()


def log_faults(call: Call, entry: Entry) -> None:
    """Say what was injected, and what was meant to be and has no meaning there."""
    asked = f"{call.request.method} {printable(call.stored.path, LONGEST_PATH)}"
    for it in entry.faults:
        skipped = printable(it.skipped, LONGEST_PATH)
        what = f"not injected, {skipped}" if skipped else "injected"
        log.info("%s: fault %s: %s", asked, printable(it.rule, LONGEST_PATH), what)


def tell(entry: Entry, head: Head) -> None:
    """What a head tells the client."""
    entry.status = head.status
    entry.retry_after_ms = http_heads.retry_after_ms(head.headers)
    should = header(head.headers, "x-should-retry")
    entry.should_retry = None if should is None else should.lower() == "true"


async def describe(entry: Entry, call: Call) -> None:
    """What is asked, and of whom."""
    if len(call.request.body) > LARGE:  # other streams need not wait for its key
        await asyncio.to_thread(lambda: call.key)
    entry.path = call.stored.path
    entry.provider = call.provider
    entry.dialect = call.dialect.name
    entry.model = call.model
    entry.key = call.key[:16]
    entry.streams = call.dialect.streams(call.plain)
    entry.retry_count = retry_count(call)
