"""Converts a recorded request to another dialect, so that another provider can respond to it.

The request is decoded to a conversation, which is encoded in the other dialect.  What that cannot
represent is refused; what a conversation does not contain, such as a user's name, and what only the
recorded provider can read, such as signed reasoning, is left out and listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from urllib.parse import quote

from llm_proxy import providers
from llm_proxy.conversation import Conversation, RequestMessage
from llm_proxy.dialects import Dialect, request_dialects, request_encoding
from llm_proxy.dialects.lenient_json import compact_json, get_text, parse_object
from llm_proxy.errors import NotRepresentable, UsageError, name_hint
from llm_proxy.exchange import Request, header_value
from llm_proxy.transcoding.unread_fields import unread_fields
from llm_proxy.turns import Part, Reasoning, Refusal, Text, ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """Where a converted request is sent."""

    dialect: Dialect
    provider: str


@dataclass(frozen=True, slots=True)
class TranscodedRequest:
    """A request in another dialect."""

    request: Request
    losses: tuple[str, ...]
    """What was left out: parts in words, fields of the body as JSONPaths."""


def request_target(name: str) -> RequestTarget:
    """The dialect and the provider that a name means: a dialect's own, or a provider's first.

    Raises `UsageError` for an unknown name.
    """
    targets = _targets()
    if name not in targets:
        raise UsageError(f"--as: unknown dialect or provider {name!r}; {name_hint(name, targets)}")
    return targets[name]


def _targets() -> dict[str, RequestTarget]:
    """All targets by name: dialects, then providers that have one address for all customers."""
    known = request_dialects()
    targets = {
        name: RequestTarget(dialect, _own_provider(dialect)) for name, dialect in known.items()
    }
    for dialect in known.values():
        for provider in (_own_provider(dialect), *dialect.provider_variants):
            if providers.upstream_url(provider, {}):
                targets.setdefault(provider, RequestTarget(dialect, provider))
    return targets


def _own_provider(dialect: Dialect) -> str:
    """The provider that defined the dialect."""
    return providers.provider_of_request(dialect.sample_request("model", stream=True))


def transcode_request(
    request: Request, dialect: Dialect, provider: str, target: RequestTarget, model: str
) -> TranscodedRequest:
    """A request of this dialect, recorded for this provider, for another dialect and model.

    For the dialect and the provider that it already has, only the model changes.  Raises
    `NotRepresentable` if the request has no conversation, or no model to replace, and, by name, for
    what the target cannot represent.
    """
    if (dialect.name, provider) == (target.dialect.name, target.provider):
        return TranscodedRequest(_with_model(dialect, request, model), ())
    recorded = dialect.decode_request(request)
    if recorded is None or not recorded.messages:
        raise NotRepresentable("the request contains no conversation to convert")
    messages = _with_matched_results(target, recorded.messages)
    conversation = replace(
        recorded, model=model, messages=tuple(map(_without_signatures, messages))
    )
    request_encoding.refuse_stored_state(target.dialect.name, conversation)
    encoded = target.dialect.encode_request(
        conversation, stream=dialect.streams(request), provider=target.provider
    )
    decoded = target.dialect.decode_request(encoded)
    try:
        unread = unread_fields(dialect, request)
    except RecursionError:
        raise NotRepresentable("the request is nested too deep to convert") from None
    if content := next((field for field in unread if field.is_content), None):
        raise request_encoding.refusal(target.dialect.name, content.path)
    headers = (
        f"the header {name}"
        for name in dialect.cassette_key_headers
        if header_value(request.headers, name) and not header_value(encoded.headers, name)
    )
    losses = (
        *(_lost_content(recorded, decoded) if decoded else ()),
        *(field.path for field in unread),
        *headers,
    )
    return TranscodedRequest(encoded, losses)


def _with_model(dialect: Dialect, request: Request, model: str) -> Request:
    """The request for another model: in the body, and in the path if that decides.

    Raises `NotRepresentable` if neither names a model.
    """
    recorded_model = dialect.model(request)
    new_model = dialect.model(dialect.sample_request(model, stream=True))
    body = parse_object(request.body)
    if body_model := get_text(body, "model"):
        is_same = body_model.endswith(recorded_model)
        prefix = body_model.removesuffix(recorded_model) if is_same else ""  # `models/`
        changed_body = {**body, "model": prefix + new_model}
        request = replace(request, body=compact_json(changed_body).encode())
    if recorded_model and dialect.model(request) != new_model:
        spellings = (quote(recorded_model, safe=safe) for safe in ("", ":", ":/"))
        names = "|".join(map(re.escape, spellings))
        path = re.sub(
            rf"(.*/)(?:{names})(?=[:/]|%3A|\Z)",  # the last one: a folder may have the same name
            lambda match: match[1] + quote(new_model, safe="", errors="replace"),
            request.path,
            flags=re.IGNORECASE,
        )
        request = replace(request, path=path)
    if not recorded_model or dialect.model(request) != new_model:
        raise NotRepresentable(f"{dialect.name}: the request names no model that can be replaced")
    return request


def _with_matched_results(
    target: RequestTarget, messages: tuple[RequestMessage, ...]
) -> tuple[RequestMessage, ...]:
    """The messages, with results in messages of their own, and with an id for each call.

    An id that other providers refuse is replaced.  Some providers have none: there a result
    belongs to the first call of its name.  Raises `NotRepresentable` for tools that the recorded
    provider ran itself: their results are the model's, or missing.
    """
    known_ids = {part.id for part in _parts(messages) if isinstance(part, ToolCall)}
    given_ids: set[str] = set()
    open_calls: list[tuple[ToolCall, str]] = []
    """The calls without a result so far, and their new ids."""

    def with_new_id(call: ToolCall) -> ToolCall:
        new_id, number = call.id, len(given_ids)
        while new_id in given_ids or not request_encoding.PORTABLE_CALL_ID.fullmatch(new_id):
            number += 1
            new_id = f"call_{number}" if f"call_{number}" not in known_ids else ""
        given_ids.add(new_id)
        open_calls.append((call, new_id))
        return replace(call, id=new_id)

    def with_id_of_call(result: ToolResult) -> ToolResult:
        for position, (call, new_id) in enumerate(open_calls):
            if (
                result.call_id == call.id
                if result.call_id and call.id
                else result.name in ("", call.name)
            ):
                del open_calls[position]
                return replace(result, call_id=new_id, name=result.name or call.name)
        return result

    converted: list[RequestMessage] = []
    for message in messages:
        parts: list[Part] = []
        results: list[Part] = []
        for part in message.parts:
            match part:
                case ToolCall():
                    parts.append(with_new_id(part))
                case ToolResult() if message.role == "assistant":
                    name = with_id_of_call(part).name or "a tool"
                    raise request_encoding.refusal(
                        target.dialect.name, f"{name}, a tool that the recorded provider ran"
                    )
                case ToolResult():
                    results.append(with_id_of_call(part))
                case _:
                    parts.append(part)
        if results:
            converted.append(RequestMessage("tool", tuple(results)))
        if parts or not results:
            converted.append(replace(message, parts=tuple(parts)))
    if open_calls:
        raise request_encoding.refusal(
            target.dialect.name, f"a call of {open_calls[0][0].name} without a result"
        )
    return tuple(converted)


def _without_signatures(message: RequestMessage) -> RequestMessage:
    """The message without what only the provider of its reasoning can read."""
    parts = (
        Reasoning(part.text) if isinstance(part, Reasoning) else part for part in message.parts
    )
    return replace(message, parts=tuple(parts))


def _lost_content(given: Conversation, kept: Conversation) -> Iterator[str]:
    """What parts lack in the second conversation, in words."""
    given_parts, kept_parts = _parts(given.messages), _parts(kept.messages)
    if _reasoning_text(given_parts) != _reasoning_text(kept_parts):
        yield "reasoning"
    elif any(map(_is_signed, given_parts)) and not any(map(_is_signed, kept_parts)):
        yield "reasoning signatures"
    if any(map(_has_failed, given_parts)) and not any(map(_has_failed, kept_parts)):
        yield "whether a tool failed"
    if _count(given_parts, Refusal) > _count(kept_parts, Refusal):
        yield "refusals (sent as text)"
    if _roles(given) - _roles(kept):
        yield "roles of messages (sent as one prompt)"
    elif _order(given) != _order(kept):
        yield "the order of parts"


def _parts(messages: tuple[RequestMessage, ...]) -> tuple[Part, ...]:
    return tuple(part for message in messages for part in message.parts)


def _reasoning_text(parts: tuple[Part, ...]) -> str:
    texts = (part.text or part.redacted or "" for part in parts if isinstance(part, Reasoning))
    return "".join(texts)


def _is_signed(part: Part) -> bool:
    return isinstance(part, Reasoning) and bool(part.signature or part.redacted)


def _has_failed(part: Part) -> bool:
    return isinstance(part, ToolResult) and part.failed


def _count(parts: tuple[Part, ...], kind: type[Part]) -> int:
    return sum(isinstance(part, kind) for part in parts)


def _roles(conversation: Conversation) -> set[str]:
    """The roles of the parts that are sent."""
    roles: set[str] = {
        "tool" if isinstance(part, ToolResult) else message.role
        for message in conversation.messages
        for part in message.parts
        if not (isinstance(part, Reasoning) or request_encoding.is_blank_part(part))
    }
    return roles | {"system"} if conversation.system.strip() else roles


def _order(conversation: Conversation) -> list[type[Part]]:
    """The kinds of parts in their order, without those that are left out or sent elsewhere."""
    kinds = (
        Text if isinstance(part, Refusal) else type(part)
        for message in conversation.messages
        if message.role != "system"
        for part in message.parts
        if not (isinstance(part, Reasoning) or request_encoding.is_blank_part(part))
    )
    return [kind for kind, _ in groupby(kinds)]
