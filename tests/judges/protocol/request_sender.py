"""Sends the requests that tests ask a judge's SDK for.

On stdin, JSON lines with a URL, the arguments of the SDK's call, and whether to stream; on stdout,
one line when a request is sent and its response is read.  The test reads the request from its
server.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from typing import Any


def run(send: Callable[[str, dict[str, Any], bool], None]) -> None:
    """Send each request with `send(url, arguments, stream)`, which ignores an error status."""
    for line in sys.stdin:
        request = json.loads(line, object_hook=_decode_bytes)
        send(request["url"], request["arguments"], request["stream"])
        print("sent", flush=True)


def _decode_bytes(fields: dict[str, Any]) -> Any:
    """The bytes of an object that stands for them, which JSON lacks."""
    encoded = fields.get("base64 of bytes")
    return fields if encoded is None else base64.b64decode(encoded)
