"""Failures as a client meets them: an error's status and body, silence, a reset, broken JSON.

None of them is kept by a pace: what a client is told to wait, it is told as it was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.actions import Abort, Begin, Burst, Send, Wait
from llm_proxy.dialects import lenient_json, response_encoding, retry_delay
from llm_proxy.dialects.base import Response
from llm_proxy.dialects.decoded_request import Asked
from llm_proxy.exchange import Head
from llm_proxy.framing.truncated_json import spoil
from llm_proxy.scenario.scripted_response import Fail
from llm_proxy.turns import Failure, Finish, Json, Text, Turn

_BEGUN: Final = Turn((Text("The"),), finish=Finish.STOP)
"""What a stream begins with that is broken off."""
_STATUS: Final = ("status", "statusCode")
"""Fields of an error that stand for its HTTP status, where they are one; the first wins."""
_STATUSES: Final = range(400, 600)
_MESSAGE: Final = "message"
_NEVER_AGAIN: Final = ("x-should-retry", "false")
"""The header by which SDKs do not ask again."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What ends a failure that a client does not end."""

    silence: float = 660_000.0
    """The longest silence of a `timeout`, in ms: a minute more than the SDKs of OpenAI and
    Anthropic wait unless they are told otherwise."""


def failed(fail: Fail, asked: Asked, limits: Limits) -> Burst:
    """The actions of this failure.

    Raises `CannotSay` where an answer would have to begin that the dialect has no words for.
    """
    match fail.status:
        case "timeout":
            return (Wait(limits.silence), Abort("fin"))
        case "network_error" if fail.retryable:
            return (Abort("rst"),)
        case "network_error":
            return _broken_off(fail, asked)
        case "invalid_response":
            return _spoiled(asked)
        case "rate_limit":
            return _counted_down(fail, asked)
        case "thrown":
            return _refused(500, fail, asked)
        case "model_error":
            return _refused(500 if fail.retryable else 400, fail, asked)


def _broken_off(fail: Fail, asked: Asked) -> Burst:
    """A connection that is lost where no SDK asks again: amid a stream; else a gateway's error."""
    response = _begun(asked)
    if response.codec == "whole":
        return _refused(502, fail, asked)
    return (Begin(response.head), Send(response.messages[0]), Abort("rst"))


def _spoiled(asked: Asked) -> Burst:
    """Success by its head, and no JSON by its body, which ends there."""
    response = _begun(asked)
    body = spoil(response.codec, response.messages[0])
    return (Begin(_fitted(response.head, body)), Send(body))


def _begun(asked: Asked) -> Response:
    return asked.dialect.speak(asked.request, (_BEGUN,), asked.delivery)


def _counted_down(fail: Fail, asked: Asked) -> Burst:
    """The one failure that says when to ask again, and never that nobody should."""
    ms = fail.retry_after_ms
    response = _error(429, fail, asked, None if ms is None else ms / 1000)
    return _whole(retry_delay.told(response, ms))


def _refused(status: int, fail: Fail, asked: Asked) -> Burst:
    """An HTTP error, which says where it must not be asked again."""
    response = _error(status, fail, asked)
    if not fail.retryable:
        head = response.head
        response = replace(response, head=replace(head, headers=(*head.headers, _NEVER_AGAIN)))
    return _whole(response)


def _error(status: int, fail: Fail, asked: Asked, retry_after: float | None = None) -> Response:
    """The dialect's error with the fields that its author gave it; `retry_after` is in s."""
    given = dict(fail.error or {})
    message = lenient_json.text(given.get(_MESSAGE)) or fail.message
    statuses = [it for name in _STATUS if (it := _status(given.get(name))) is not None]
    placed = {_MESSAGE, *(name for name in _STATUS if _status(given.get(name)) is not None)}
    fields = {name: it for name, it in given.items() if name not in placed}
    failure = Failure(message, type=lenient_json.text(given.get("type")))
    number = next(iter(statuses), status)
    response = asked.dialect.refuse(number, failure, asked.delivery, retry_after)
    return _with_fields(response, fields) if fields else response


def _status(value: Json) -> int | None:
    """The HTTP status that a value is, if it is that of an error."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value not in _STATUSES:
        return None
    return int(value)


def _with_fields(response: Response, fields: Mapping[str, Json]) -> Response:
    """The error with these fields in its object: that of its `error`, else the document."""
    document = response_encoding.Document(lenient_json.document(b"".join(response.messages)))
    about = document.get("error")
    (about if isinstance(about, dict) else document).update(fields)
    body = response_encoding.written(document)
    return replace(response, head=_fitted(response.head, body), messages=(body,))


def _fitted(head: Head, body: bytes) -> Head:
    """The head of this body, where it declares a length."""
    return replace(head, length=len(body)) if head.framing == "length" else head


def _whole(response: Response) -> Burst:
    return (Begin(response.head), *map(Send, response.messages))
