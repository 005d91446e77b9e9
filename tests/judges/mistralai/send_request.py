"""Sends chat requests by Mistral's client."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import judge_protocol
import request_sender
from mistralai.client import Mistral
from mistralai.client.errors import MistralError


def send(url: str, arguments: dict[str, Any], stream: bool) -> None:
    """Send one chat request."""
    client = Mistral(
        server_url=url,
        api_key=judge_protocol.API_KEY,
        timeout_ms=int(judge_protocol.TIMEOUT_S * 1000),
    )
    with suppress(MistralError):
        if stream:
            client.chat.stream(model="m", **arguments)
        else:
            client.chat.complete(model="m", **arguments)


if __name__ == "__main__":
    request_sender.run(send)
