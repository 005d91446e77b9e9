"""Sends chat requests by version 2 of Cohere's client."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import cohere
import judge_protocol
import request_sender
from cohere.core.api_error import ApiError


def send(url: str, arguments: dict[str, Any], stream: bool) -> None:
    """Send one chat request."""
    client = cohere.ClientV2(judge_protocol.API_KEY, base_url=url, timeout=judge_protocol.TIMEOUT_S)
    options = {"max_retries": 0, **arguments.pop("request_options", {})}
    with suppress(ApiError):
        if stream:
            for _ in client.chat_stream(model="m", **arguments, request_options=options):
                pass
        else:
            client.chat(model="m", **arguments, request_options=options)


if __name__ == "__main__":
    request_sender.run(send)
