"""Sends chat requests by Groq's client."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import groq
import judge_protocol
import request_sender


def send(url: str, arguments: dict[str, Any], stream: bool) -> None:
    """Send one chat request."""
    client = groq.Groq(
        base_url=url,
        api_key=judge_protocol.API_KEY,
        max_retries=0,
        timeout=judge_protocol.TIMEOUT_S,
    )
    options = {"stream": True} if stream else {}
    with suppress(groq.APIStatusError):
        client.chat.completions.create(model="m", **arguments, **options)


if __name__ == "__main__":
    request_sender.run(send)
