"""The main program of the judges for frameworks, which have one client class for each dialect.

A judge gives `main` one function for each dialect.  The function creates the client for a request,
and returns how to send the request and how to read each chunk.  `judge_protocol` has the protocol.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judge_protocol import RESPONSE_FIELDS, JudgeRequest, JudgeResponse, http_status_of, run


@dataclass(frozen=True, slots=True)
class ClientCall:
    """One request to a client that is ready."""

    stream_chunks: Callable[[], AsyncIterator[Any]]
    """Send the request and yield the chunks of a stream, or one complete response."""
    read_chunk: Callable[[JudgeResponse, Any], None]
    """Add one chunk to the response."""
    finish: Callable[[JudgeResponse], None] = lambda _: None
    """Add what is known only at the end; called after an error too."""


PrepareCall = Callable[[str, JudgeRequest], ClientCall]
"""Takes the proxy's URL and a request."""


def main(judge_file: str, prepare_by_dialect: Mapping[str, PrepareCall]) -> None:
    """Send the requests on stdin and print the responses.

    `judge_file` is the judge's own file.  Fields that `abilities.json` does not list are set to
    None.
    """
    abilities = json.loads(Path(judge_file).with_name("abilities.json").read_bytes())
    with asyncio.Runner() as runner:

        def send_request(url: str, request: JudgeRequest) -> JudgeResponse:
            response = runner.run(_read_response(prepare_by_dialect[request.dialect], url, request))
            supported = abilities[request.dialect]["stream" if request.is_streaming else "whole"]
            for name, attribute in RESPONSE_FIELDS.items():
                if name not in supported:
                    setattr(response, attribute, None)
            return response

        run(lambda url: lambda request: send_request(url, request))


async def _read_response(prepare: PrepareCall, url: str, request: JudgeRequest) -> JudgeResponse:
    call, response = prepare(url, request), JudgeResponse(reasoning="", refusal="")
    async for chunk in _capture_errors(call.stream_chunks, response):
        call.read_chunk(response, chunk)
    call.finish(response)
    return response


async def _capture_errors(
    stream_chunks: Callable[[], AsyncIterator[Any]], response: JudgeResponse
) -> AsyncIterator[Any]:
    """Yield the chunks; the client's exception ends them.

    An exception raised by the code that reads a chunk never passes through here.
    """
    try:
        async for chunk in stream_chunks():
            yield chunk
    except ImportError:  # a broken environment is no response
        raise
    except Exception as error:  # whatever a client raises is what its users see
        response.set_error(type(error).__name__, _http_status_of(error), str(error))


def _http_status_of(error: BaseException | None) -> int | None:
    """The HTTP status of an exception, or of the exception that caused it."""
    while isinstance(error, Exception):
        if status := http_status_of(error):
            return status
        error = error.__cause__
    return None
