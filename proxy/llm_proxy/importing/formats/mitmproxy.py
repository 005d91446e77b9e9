"""Flows of mitmproxy, as `-w FILE` writes them: typed netstrings, one object per flow.

{version, type: http, error, request: {method, scheme, host, port, path, headers, content,
 timestamp_start, timestamp_end}, response: {status_code, reason, headers, content, ...}}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from llm_proxy.exchange import Ending
from llm_proxy.importing import fields
from llm_proxy.importing.source import (
    ForeignFormat,
    NotImportable,
    ParsedFile,
    SourceExchange,
    SourceMessage,
    UnreadableFile,
)

_MAX_DEPTH: Final = 50
_NETSTRING_SIZE: Final = re.compile(rb"(0|[1-9][0-9]{0,11}):")
_MESSAGE_FIELDS: Final = frozenset(
    ("method", "scheme", "host", "port", "path", "authority", "http_version", "httpversion",
     "headers", "content", "trailers", "timestamp_start", "timestamp_end", "status_code", "code",
     "reason", "msg", "first_line_format", "form_in", "form_out", "is_replay", "stickycookie",
     "stickyauth")
)  # fmt: skip


def _matches_format(parsed_file: ParsedFile) -> bool:
    """Whether a file starts with an object, maybe cut short: its size, then a member name."""
    data = parsed_file.decompressed_bytes
    size = _NETSTRING_SIZE.match(data)
    name = size and _NETSTRING_SIZE.match(data, size.end())
    if size is None or name is None:
        return False
    end, type_tag = size.end() + int(size[1]), data[name.end() + int(name[1]) :][:1]
    return type_tag in (b";", b",") and data[end : end + 1] in (b"}", b"")


def _list_items(parsed_file: ParsedFile) -> Iterator[Any]:
    data, offset = parsed_file.decompressed_bytes, 0
    while offset < len(data):
        value, offset = _parse_value(data, offset, len(data), 0)
        yield value


def _parse_value(data: bytes, offset: int, end: int, depth: int) -> tuple[Any, int]:
    """The netstring at `offset`, which ends before `end`, and the offset after it."""
    size = _NETSTRING_SIZE.match(data, offset, end)
    if size is None:
        raise UnreadableFile(f"byte {offset}: expected a size")
    payload_end = size.end() + int(size[1])
    if payload_end >= end:
        raise UnreadableFile(f"byte {offset}: the file is truncated")
    type_tag = data[payload_end : payload_end + 1]
    if type_tag not in b"}]":
        return _parse_scalar(offset, type_tag, data[size.end() : payload_end]), payload_end + 1
    if depth == _MAX_DEPTH:
        raise UnreadableFile(f"byte {offset}: values are nested more than {_MAX_DEPTH} levels deep")
    items: list[Any] = []
    members: dict[str, Any] = {}
    offset = size.end()
    while offset < payload_end:
        value, value_end = _parse_value(data, offset, payload_end, depth + 1)
        if type_tag == b"}":
            if not isinstance(value, str | bytes):
                raise UnreadableFile(f"byte {offset}: a field name is not text")
            name = _decode_text(value)
            members[name], value_end = _parse_value(data, value_end, payload_end, depth + 1)
        else:
            items.append(value)
        offset = value_end
    return (members if type_tag == b"}" else items), payload_end + 1


def _parse_scalar(offset: int, type_tag: bytes, payload: bytes) -> Any:
    with suppress(ValueError):  # invalid UTF-8 or number
        match type_tag:
            case b",":
                return payload
            case b";":
                return payload.decode("utf-8")
            case b"#":
                return int(payload[:30])
            case b"^":
                return float(payload[:60])
            case b"!" if payload in (b"true", b"false"):
                return payload == b"true"
            case b"~" if not payload:
                return None
            case _:  # unknown type: raised below
                pass
    raise UnreadableFile(f"byte {offset}: unknown value type")


def _parse_exchange(item: Any) -> SourceExchange:
    flow = fields.require_object(item, "the flow")
    flow_type = _decode_text(flow.get("type", "http"))
    if flow_type != "http":
        raise NotImportable(f"unsupported flow type '{flow_type}'; only HTTP flows can be imported")
    fields.require_object(flow.get("request"), "the request")
    error = flow.get("error")
    if not isinstance(flow.get("response"), dict):
        if not isinstance(error, dict):
            raise NotImportable("the flow has neither a response nor an error")
        raise NotImportable(f"no response was recorded: {_decode_text(error.get('msg'))}")
    if flow.get("websocket"):
        raise NotImportable("the flow is a WebSocket connection, which cannot be imported")
    request = fields.require_message(flow, "request", _MESSAGE_FIELDS)
    response = fields.require_message(flow, "response", _MESSAGE_FIELDS)
    if request.get("content") is None or response.get("content") is None:
        raise NotImportable("mitmproxy streamed a body without storing it")
    host = _decode_text(request.get("host"))
    authority = f"[{host}]" if ":" in host else host
    sent_at_s = fields.nonnegative_number(
        request.get("timestamp_end")
    ) or fields.nonnegative_number(request.get("timestamp_start"))
    return fields.build_exchange(
        _decode_text(request.get("method")),
        f"//{authority}{_decode_text(request.get('path'))}",
        _parse_message(request),
        response.get("status_code", response.get("code")),
        _decode_text(response.get("reason")),
        _parse_message(response),
        head_at_ms=_ms_since(sent_at_s, response.get("timestamp_start")),
        end_at_ms=_ms_since(sent_at_s, response.get("timestamp_end")),
        ending=Ending.FIN if isinstance(error, dict) else Ending.CLEAN,
        recorded_at=fields.normalize_timestamp(sent_at_s),
    )


def _parse_message(message: dict[str, Any]) -> SourceMessage:
    headers = fields.parse_headers(message.get("headers"))
    return SourceMessage(headers, fields.body_to_bytes(message["content"]))


def _ms_since(start_s: float | None, timestamp_s: Any) -> float | None:
    """The ms from the end of the request to this time; None where either is unknown."""
    at_s = fields.nonnegative_number(timestamp_s)
    return None if at_s is None or start_s is None else max(0.0, (at_s - start_s) * 1000)


def _decode_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


MITMPROXY: Final = ForeignFormat(
    "mitmproxy", "mitmproxy", _matches_format, _list_items, _parse_exchange
)
