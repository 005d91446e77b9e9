"""Sends Converse requests with AWS's SDK for Python."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import request_sender
from botocore.exceptions import ClientError
from judge import make_client


def send(url: str, arguments: dict[str, Any], stream: bool) -> None:
    """Send a request; an error status is no failure."""
    client = make_client(url)
    converse = client.converse_stream if stream else client.converse
    with suppress(ClientError):
        converse(**{"modelId": "m", **arguments})


if __name__ == "__main__":
    request_sender.run(send)
