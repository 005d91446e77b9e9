"""What JSON APIs have in common: a body of one document, an HTTP error, an error in words."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import Final

from llm_proxy import framing
from llm_proxy.dialects import lenient_json
from llm_proxy.dialects.base import Judgement, Response
from llm_proxy.dialects.lenient_json import Fields
from llm_proxy.exchange import Head, header
from llm_proxy.turns import Failure, Json

_REASON_LENGTH: Final = 60
"""Characters of a provider's message that fit a table."""


def succeeded(head: Head) -> bool:
    """Whether the status is one of success."""
    return HTTPStatus(200) <= head.status < HTTPStatus(300)


def events_or_whole(head: Head, *, streams: bool) -> str:
    """The codec of an API that streams events: by content type; where there is none, as asked.

    Errors are documents, and some come labelled as the stream that they are not.
    """
    if not succeeded(head):
        return "whole"
    content_type = header(head.headers, "content-type")
    if not content_type:
        return "sse" if streams else "whole"
    return "sse" if framing.by_content_type(content_type) == "sse" else "whole"


def body(response: Response) -> bytes:
    """The body in one piece."""
    return b"".join(response.messages)


def judge(response: Response) -> Judgement:
    """An HTTP error is whole whatever its body (gateways send HTML); a document when it parses."""
    if not succeeded(response.head):
        return Judgement(whole=True, reason=f"HTTP {response.head.status}")
    content = body(response)
    if not content.strip():
        return Judgement(whole=False, reason="empty body")
    try:
        lenient_json.parse(content)
    except ValueError:
        return Judgement(whole=False, reason="body is not JSON")
    return Judgement(whole=True, reason="JSON body")


def by_framing(response: Response) -> Judgement:
    """Whole as far as HTTP can say, which of a body that a close delimits is nothing."""
    if response.head.framing == "close":
        return Judgement(whole=True, reason="delimited by close", proven=False)
    return Judgement(whole=True, reason="HTTP framing ended")


def in_band(failure: Failure) -> Judgement:
    """The provider itself said that nothing more would come."""
    message = " ".join((failure.message or failure.type or failure.code).split())
    if len(message) > _REASON_LENGTH:
        message = message[: _REASON_LENGTH - 1] + "…"
    return Judgement(whole=True, reason=f"in-band error: {message}")


def failure(error: Json) -> Failure:
    """An error as providers spell it: an object with a message, or the message alone."""
    about = lenient_json.fields(error)
    if not about:
        return Failure(lenient_json.words(error))
    return Failure(
        message=lenient_json.words(about.get("message")) or lenient_json.compact(error),
        type=lenient_json.words(about.get("type")),
        code=lenient_json.words(about.get("code")),
    )


def http_failure(response: Response) -> Failure:
    """What an HTTP error says, in any of the shapes of providers and gateways."""
    said: Fields = lenient_json.document(body(response))
    error = said.get("error")
    if error and error is not True:
        return _beside(said, failure(error))
    if said.get("message"):
        return failure(dict(said))
    if said.get("detail"):
        return Failure(lenient_json.words(said.get("detail")))
    return Failure(f"HTTP {response.head.status} {response.head.reason}".strip())


def _beside(said: Fields, found: Failure) -> Failure:
    """An error in words may have its code and its type beside it."""
    if lenient_json.fields(said.get("error")):
        return found
    return replace(
        found,
        type=lenient_json.words(said.get("error_type")),
        code=lenient_json.words(said.get("code")),
    )
