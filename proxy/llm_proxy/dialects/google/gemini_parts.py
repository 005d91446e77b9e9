"""The parts of a content, decoded and encoded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

import orjson

from llm_proxy.dialects import json_api, turn_parts
from llm_proxy.dialects.encoding import normalized_object_json
from llm_proxy.dialects.fragments import FragmentJoiner
from llm_proxy.dialects.google.gemini_sources import sendable_citations
from llm_proxy.dialects.google.shared_format import is_signature, sendable_reasoning
from llm_proxy.dialects.lenient_json import (
    Fields,
    compact_json,
    get_object,
    get_objects,
    get_string,
    get_text,
    join_pieces,
    parse_object,
    select_metadata,
    selected_fields,
    value_as_text,
)
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import Json, Media, Metadata, Part, Reasoning, Text, ToolCall, ToolResult

_CODE_CALL, _CODE_RESULT = "executableCode", "codeExecutionResult"
_TOOL_CALL, _TOOL_RESULT, _CLIENT_RESULT = "toolCall", "toolResponse", "functionResponse"
PART_KINDS: Final = (
    *("text", "functionCall", _CLIENT_RESULT, _CODE_CALL, _CODE_RESULT),
    *(_TOOL_CALL, _TOOL_RESULT, "inlineData", "fileData"),
)
"""The fields of which a part has exactly one, which is its kind."""
_NON_TEXT_KINDS: Final = frozenset(PART_KINDS[1:])
SERVER_CALL_KINDS: Final = (_CODE_CALL, _TOOL_CALL)
"""The kinds of calls of the tools that Google runs."""

_SIGNATURE: Final = "thoughtSignature"
_METADATA: Final = (_SIGNATURE, "mediaResolution", "videoMetadata", "partMetadata")
"""The metadata beside the content of a part."""

_PATH_STEP: Final = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,9})\]|\['([^']*)'\]|\["([^"]*)"\]""")
_MAX_PATH_STEPS: Final = 100
"""The limit of steps in a path; JSON encoders fail not far beyond."""

_CODE_TOOL: Final = "code_execution"
"""The tool name of code that Google runs."""
_SUCCESS_OUTCOMES: Final = ("OUTCOME_OK", 1, None)
"""Outcomes of successful code; clients may request enums as numbers."""


def part_output_chars(part: Fields) -> int:
    """The output characters of a part; one without text counts as at least one.

    A signature counts nothing.
    """
    if text := get_string(part, "text"):
        return len(text)
    call = get_object(part, "functionCall")
    code = get_object(part, _CODE_CALL)
    arguments = call.get("args")
    counted_text = (
        get_text(call, "name")
        + (compact_json(arguments) if arguments else "")
        + get_text(code, "code")
    )
    return max(len(counted_text), int(not _NON_TEXT_KINDS.isdisjoint(part)))


class _StreamedCall:
    """Collects the arguments of one call, which are streamed as values by path.

    $.city "Ro"   $.city "me"   $.days[0] 3   →   {"city":"Rome","days":[3]}
    """

    def __init__(self, start: ToolCall, key: int) -> None:
        self.key = key
        """The key of its fragments."""
        self._start = start
        self._values: dict[str | int, Any] = {}
        """A container is such a dictionary, a text the list of its pieces; the rest are scalars."""

    def feed(self, partial: Fields) -> None:
        """Add one of `partialArgs`; one with an invalid `jsonPath` is ignored."""
        path, steps, position = get_string(partial, "jsonPath"), list[str | int](), 1
        while path.startswith("$") and position < len(path):
            match = _PATH_STEP.match(path, position)
            if not match or len(steps) == _MAX_PATH_STEPS:
                return
            name = next(group for group in match.groups() if group is not None)
            steps.append(int(name) if match.lastindex == 2 else name)
            position = match.end()
        if not steps:
            return
        values = self._values
        for step in steps[:-1]:
            if not isinstance(values.get(step), dict):
                values[step] = {}
            values = values[step]
        known, piece = values.get(steps[-1]), partial.get("stringValue")
        if isinstance(known, dict):
            return
        if isinstance(piece, str):
            if not isinstance(known, list):
                known = values[steps[-1]] = []
            known.append(piece)
        elif not isinstance(known, list):
            values[steps[-1]] = partial.get("numberValue", partial.get("boolValue"))

    def call(self) -> ToolCall:
        """The call with its arguments so far."""
        return replace(self._start, arguments=compact_json(_value_of_arguments(self._values) or {}))


def _value_of_arguments(value: Any) -> Json:
    """The JSON value; a container is an array where all keys are indices, else an object."""
    match value:
        case list():
            return join_pieces(value)
        case dict() if all(isinstance(key, int) for key in value):
            return [_value_of_arguments(value[index]) for index in sorted(value)]
        case dict():
            return {str(key): _value_of_arguments(child) for key, child in value.items()}
        case _:
            scalar: Json = value
            return scalar


class ContentDecoder:
    """Decodes the parts of one candidate, which may be increments."""

    def __init__(self) -> None:
        self.has_client_call = False
        """Whether the model calls a tool of the client."""
        self._fragments = FragmentJoiner()
        self._part_key = 0
        """The key of the current part; text fragments with the same key become one part."""
        self._latest_kind: type[Part] | None = None
        self._open_call: _StreamedCall | None = None
        """The call that is being streamed."""

    def feed(self, part: Fields) -> Sequence[Part]:
        """Add one part, and return what is complete: text, or a call; ignores unknown kinds."""
        kind = next((name for name in PART_KINDS if name in part), "")
        metadata = select_metadata(part, _METADATA)
        inner = get_object(part, kind)
        match kind:
            case "text":
                return self._feed_text(part, metadata)
            case "functionCall":
                return [*self._feed_function_call(inner, metadata)]
            case "inlineData" | "fileData":  # inline, or as a file of Google's
                thought: Metadata = (("thought", True),) if part.get("thought") is True else ()
                name = select_metadata(inner, ("displayName",))
                media = Media(
                    get_text(inner, "mimeType"),
                    get_text(inner, "fileUri"),
                    get_text(inner, "data"),
                    metadata=(*name, *metadata, *thought),
                )
                self._add_fragment(media, _joining_key(media))
            case "":
                pass
            case _:
                self._add_fragment(_decode_server_tool_part(kind, inner, metadata), None)
        return ()

    def parts(self) -> tuple[Part, ...]:
        """The decoded parts so far, without their citations."""
        parts = [*self._fragments.joined_parts()]
        if self._open_call is not None:  # the last call
            index = max(index for index, part in enumerate(parts) if json_api.is_client_call(part))
            parts[index] = self._open_call.call()
        return tuple(parts)

    def _feed_text(self, part: Fields, metadata: Metadata) -> Sequence[Part]:
        """Text or a thought; a signature ends its part."""
        text = get_string(part, "text")
        signature = get_string(part, _SIGNATURE)
        if not text and not metadata:
            return ()
        if part.get("thought") is True:
            other_metadata = tuple(pair for pair in metadata if pair[0] != _SIGNATURE)
            fragment: Part = Reasoning(text, signature or None, metadata=other_metadata)
        else:
            fragment = Text(text, metadata=metadata)
        if self._latest_kind is not type(fragment):
            self._part_key += 1
        self._add_fragment(fragment, self._part_key)
        if signature:
            self._part_key += 1
        return [fragment] if text else ()

    def _feed_function_call(self, call: Fields, metadata: Metadata) -> Iterator[ToolCall]:
        """A whole call, or a streamed one: first with a name, then increments without."""
        name = get_text(call, "name")
        will_continue = call.get("willContinue") is True
        if name or "args" in call or self._open_call is None:
            yield from self._close_open_call()
            if not call:
                return
            self._part_key += 1
            is_streamed = will_continue or "partialArgs" in call
            arguments = "" if is_streamed else compact_json(call.get("args") or {})
            new_call = ToolCall(get_text(call, "id"), name, arguments, metadata)
            self._add_fragment(new_call, self._part_key)
            self.has_client_call = True
            if is_streamed:
                self._open_call = _StreamedCall(new_call, self._part_key)
            else:
                yield new_call
        if self._open_call is not None:
            for partial in get_objects(call, "partialArgs"):
                self._open_call.feed(partial)
            if not will_continue:
                yield from self._close_open_call()

    def _close_open_call(self) -> Iterator[ToolCall]:
        if self._open_call is not None:
            call, key = self._open_call.call(), self._open_call.key
            self._fragments.add_fragment(ToolCall("", "", call.arguments), key)
            self._open_call = None
            yield call

    def _add_fragment(self, fragment: Part, key: int | str | None) -> None:
        self._latest_kind = type(fragment)
        self._fragments.add_fragment(fragment, key)


def _decode_server_tool_part(kind: str, inner: Fields, metadata: Metadata) -> Part:
    """A call or result of a tool that Google runs, or a result (`functionResponse`) of a client."""
    call_id = get_text(inner, "id")
    kind_metadata: Metadata = (("type", kind), *metadata)
    match kind:
        case "executableCode":
            arguments = compact_json(_without_id(inner))
            return ToolCall(call_id, _CODE_TOOL, arguments, kind_metadata)
        case "codeExecutionResult":
            failed = inner.get("outcome") not in _SUCCESS_OUTCOMES
            text = get_text(inner, "output")
            outcome = select_metadata(inner, ("outcome",))
            return ToolResult(call_id, text, _CODE_TOOL, failed, (*kind_metadata, *outcome))
        case "toolCall":
            name = get_text(inner, "toolType")
            arguments = compact_json(inner.get("args") or {})
            return ToolCall(call_id, name, arguments, kind_metadata)
        case _:
            name = value_as_text(inner.get("toolType") or inner.get("name"))
            text = get_text(inner, "response")
            return ToolResult(call_id, text, name, metadata=kind_metadata)


def _without_id(code: Fields) -> dict[str, Json]:
    """The code and its language, which share their object with the id of the call."""
    return {name: value for name, value in code.items() if name != "id"}


def _joining_key(media: Media) -> str | None:
    """Images are whole; inline audio comes in pieces, which are joined by type."""
    is_inline_audio = media.media_type.startswith("audio/") and not media.url
    return media.media_type if is_inline_audio else None


def join_audio(parts: Sequence[Part]) -> Sequence[Part]:
    """The parts, with inline audio of the same type joined, since it is streamed in pieces."""
    if not any(isinstance(part, Media) for part in parts):
        return parts
    fragments = FragmentJoiner()
    for part in parts:
        fragments.add_fragment(part, _joining_key(part) if isinstance(part, Media) else None)
    return fragments.joined_parts()


def sendable_part(part: Part) -> Part | None:
    """The part as it can be sent; None for media with only a transcript.

    A signature that is not base64 is left out, and the URL of media that are inline.
    """
    match part:
        case Text():
            signature = select_metadata(_metadata_fields(part), (_SIGNATURE,))
            return Text(part.text, sendable_citations(part), signature)
        case Reasoning():
            return sendable_reasoning(part)
        case Media() if part.transcript and not (part.base64 or part.url):
            return None
        case Media():
            return replace(part, url="" if part.base64 else part.url)
        case _:
            return part


def as_server_call(call: ToolCall) -> ToolCall | None:
    """A call that Google's own tool answered; None for arguments that are not an object."""
    fields: dict[str, Json] = dict(call.metadata)
    if is_client_call(call):
        fields["type"] = _CODE_CALL if call.name == _CODE_TOOL else _TOOL_CALL
    has_object = normalized_object_json(call.arguments or "{}") is not None
    return replace(call, metadata=tuple(fields.items())) if has_object else None


def is_client_call(part: Part) -> bool:
    """Whether the part is a call of a client's tool; the `type` marks one that Google runs."""
    return isinstance(part, ToolCall) and dict(part.metadata).get("type") not in SERVER_CALL_KINDS


def is_own_result(result: ToolResult) -> bool:
    """Whether it is a result in a response of Gemini's."""
    return dict(result.metadata).get("type") in (_CODE_RESULT, _TOOL_RESULT, _CLIENT_RESULT)


def is_empty(part: Part) -> bool:
    """Whether a part has neither content nor a signature."""
    is_signed = isinstance(part, Text) and _SIGNATURE in dict(part.metadata)
    return turn_parts.is_empty_part(part) and not is_signed


def encode_parts(parts: Iterable[Part]) -> list[Document]:
    """Each part as one wire part."""
    return [{**_encode_content(part), **_metadata_fields(part)} for part in parts]


def encode_part_chunks(
    parts: Iterable[Part], split_text: Callable[[str], Iterable[str]]
) -> Iterator[list[Document]]:
    """The wire parts of each chunk; neighbouring calls of client tools share a chunk.

    The last chunk of a text has its metadata, such as the signature.
    """
    for are_client_calls, group in groupby(parts, is_client_call):
        if are_client_calls:
            yield encode_parts(group)
            continue
        for part in group:
            if isinstance(part, Text | Reasoning) and part.text:
                *first, last = (_encode_text(part, piece) for piece in split_text(part.text))
                yield from ([piece] for piece in first)
                yield [{**last, **_metadata_fields(part)}]
            elif not isinstance(part, Text) or part.metadata:
                yield encode_parts([part])


def _encode_content(part: Part) -> Document:
    """The content of a wire part.

    A result is that of code, with its outcome, or of another tool, whose content is an object:
    other content is wrapped in `result` or `error`, and empty content stays empty.  Its name
    decides that, as it pairs the result with its call; one of code is always decoded with the
    same name.
    """
    metadata = dict(part.metadata)
    kind = metadata.get("type")
    match part:
        case ToolCall() if kind == _CODE_CALL:
            code = _without_id(parse_object(part.arguments.encode()))
            return {_CODE_CALL: {**_id_field(part.id), **code}}
        case ToolCall():
            field, name_field = "functionCall", "name"
            if kind == _TOOL_CALL:
                field, name_field = _TOOL_CALL, "toolType"
            call = {name_field: part.name, "args": orjson.Fragment(part.arguments)}
            return {field: {**_id_field(part.id), **call}}
        case ToolResult() if part.name == _CODE_TOOL and kind not in (_TOOL_RESULT, _CLIENT_RESULT):
            outcome = metadata.get("outcome")
            if not outcome or (outcome not in _SUCCESS_OUTCOMES) is not part.failed:
                outcome = "OUTCOME_FAILED" if part.failed else "OUTCOME_OK"
            output = {"outcome": outcome, "output": part.content}
            return {_CODE_RESULT: {**_id_field(part.call_id), **output}}
        case ToolResult():
            field, name_field = _TOOL_RESULT, "toolType"
            if kind == _CLIENT_RESULT:
                field, name_field = _CLIENT_RESULT, "name"
            result: Document = {**_id_field(part.call_id), name_field: part.name}
            if part.content or part.failed:
                wrapped: Json = {"error" if part.failed else "result": part.content}
                content = normalized_object_json(part.content) or compact_json(wrapped)
                result["response"] = orjson.Fragment(content)
            return {field: result}
        case Media():
            name = selected_fields(part.metadata, ("displayName",))
            blob: Document = {"mimeType": part.media_type, **name}
            if part.base64:
                return {"inlineData": {**blob, "data": part.base64}}
            return {"fileData": {**blob, "fileUri": part.url}}
        case _:
            return _encode_text(part, part.text)


def _encode_text(part: Part, text: str) -> Document:
    return {"text": text, "thought": True} if isinstance(part, Reasoning) else {"text": text}


def _id_field(call_id: str) -> Document:
    return {"id": call_id} if call_id else {}


def _metadata_fields(part: Part) -> Document:
    """The fields beside the content, without an invalid signature."""
    if isinstance(part, Reasoning):
        return {_SIGNATURE: part.signature} if part.signature else {}
    fields = dict(part.metadata)
    document: Document = selected_fields(fields, _METADATA)
    if not is_signature(document.get(_SIGNATURE)):
        document.pop(_SIGNATURE, None)
    if isinstance(part, Media) and fields.get("thought") is True:
        document["thought"] = True
    return document
