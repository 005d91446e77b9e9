"""The output items of the Responses API, and the parts of a turn that each holds.

    message       Text, Refusal   a block for each; neighbours with equal metadata share a message
    reasoning     Reasoning       summaries, then texts, then encrypted content
    compaction    Reasoning       encrypted content alone
    K_call        ToolCall K      and ToolResult K or an image, if the provider ran the tool
    K_output      ToolResult K    the result of a call whose item cannot hold it

OpenAI's tools follow one pattern and are decoded by it, so that a future tool is decoded too;
`_ITEM_TYPES` is how each is encoded.  Fields of an item without a counterpart in its parts, such
as its ID, are their metadata.  A call from another dialect becomes a function call, which waits
for the client; one with a result was run by the provider, and becomes an MCP call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.dialects.lenient_json import (
    Fields,
    array_objects,
    compact_json,
    get_objects,
    get_span,
    get_string,
    get_text,
    metadata_except,
    object_fields,
    parse_json,
    parse_object,
    select_metadata,
    selected_fields,
    value_as_text,
)
from llm_proxy.dialects.request_decoding import text_or_empty
from llm_proxy.dialects.response_encoding import Document
from llm_proxy.turns import (
    Citation,
    Json,
    Media,
    Metadata,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)

RESULT_FIELDS: Final = ("output", "outputs", "results", "tools", "error")
"""The result of a call; `error` where it failed."""
UNSUFFIXED_CALL_TYPES: Final = ("program", "mcp_list_tools", "mcp_approval_request")
"""Types of calls that do not end in `_call`."""
IMAGE_CALL: Final = "image_generation_call"
IMAGE_FIELDS: Final = ("output_format", "size", "quality", "background")
"""Fields of a generated image; the first is its media type, the others are metadata."""
SUMMARY: Final = "summary_text"
"""The type of a summary of reasoning."""
REASONING_TEXT: Final = "reasoning_text"
"""The type of raw reasoning."""

_TEXT_ARGUMENT_FIELDS: Final = ("arguments", "input")
"""Arguments as text that the model wrote."""
_OBJECT_ARGUMENT_FIELDS: Final = ("action", "operation")
"""Arguments as one object."""
_INLINE_ARGUMENT_FIELDS: Final[tuple[str, ...]] = (
    "actions",
    "queries",
    "code",
    "prompt",
    "revised_prompt",
)
"""Arguments as separate fields of the item."""
_OUTPUT_TYPE_SUFFIXES: Final = ("_output", "additional_tools")
_CALL_FIELDS: Final = (
    "call_id",
    "name",
    *_TEXT_ARGUMENT_FIELDS,
    *_OBJECT_ARGUMENT_FIELDS,
    *_INLINE_ARGUMENT_FIELDS,
    *RESULT_FIELDS,
)
"""The fields of a call that do not go into its metadata."""

_FUNCTION_CALL: Final = "function_call"
_MCP_CALL: Final = "mcp_call"
_COMPACTION: Final = "compaction"
_URL_CITATION: Final = "url_citation"
_FILE_CITATIONS: Final = ("file_citation", "container_file_citation", "file_path")
_CITATION_FIELDS: Final = ("url", "title", "content", "start_index", "end_index")

_FURTHER_CALL_FIELDS: Final = {_FUNCTION_CALL: ("type",), IMAGE_CALL: ("result", *IMAGE_FIELDS)}
"""Fields of calls of these types that do not go into their metadata either."""

_MESSAGE_METADATA: Final = ("id", "status", "phase")
_UNCOMPLETED_STATUSES: Final = frozenset(
    ("in_progress", "incomplete", "failed", "searching", "generating", "interpreting", "calling")
)
"""The statuses of an item that are kept; `completed` is the default."""


@dataclass(frozen=True, slots=True)
class _ItemType:
    """How items of one type are encoded; the defaults are those of a call of an unknown tool."""

    id_prefix: str = "item_"
    arguments: Literal["text", "object", "fields", ""] = ""
    """The form of the arguments: text that the model wrote, an object, or `_INLINE_ARGUMENT_FIELDS`
    of the item.  A call with `text` always has a name."""
    argument_field: str = "arguments"
    """The field that holds the arguments, and in any other type those that are not of its form."""
    result_list: str = ""
    """The field of a result that is a list of objects; empty if all results are text."""
    result_text: str = "output"
    """The field of any other result."""
    has_call_id: bool = True
    """Whether it has a `call_id`; else its `id` is that of the call."""
    has_status: bool = True
    may_await_client: bool = False
    """Whether the client may have to run it; it always has to run functions."""
    defaults: Document = field(default_factory=dict)
    """The fields that it must have."""
    steps: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """The progress events before and after its arguments."""
    has_failed_event: bool = False
    """Whether `failed` follows where a call with such events failed."""


_SEARCH_STEPS: Final = (("in_progress", "searching"), ("completed",))
_PLAIN_STEPS: Final = (("in_progress",), ("completed",))
_SERVER: Final[Document] = {"server_label": "tools"}
"""The MCP server of a tool that names none."""

_ITEM_TYPES: Final = {
    "message": _ItemType("msg_"),
    "reasoning": _ItemType("rs_"),
    _COMPACTION: _ItemType("cmp_"),
    _FUNCTION_CALL: _ItemType("fc_", "text"),
    "custom_tool_call": _ItemType("ctc_", "text", "input", may_await_client=True),
    "computer_call": _ItemType("cu_", "object", "action", may_await_client=True),
    "local_shell_call": _ItemType("lsh_", "object", "action", may_await_client=True),
    "shell_call": _ItemType("sh_", "object", "action", may_await_client=True),
    "apply_patch_call": _ItemType("apc_", "object", "operation", may_await_client=True),
    "tool_search_call": _ItemType("tsc_", "object", may_await_client=True),
    "tool_search_output": _ItemType(result_list="tools"),
    "additional_tools": _ItemType(result_list="tools"),
    "program": _ItemType("cm_", "fields", has_status=False),
    "program_output": _ItemType(result_text="result"),
    "web_search_call": _ItemType(
        "ws_", "object", "action", has_call_id=False, steps=_SEARCH_STEPS
    ),
    "file_search_call": _ItemType(
        "fs_", "fields", result_list="results", has_call_id=False, steps=_SEARCH_STEPS,
        defaults={"queries": [], "results": None},
    ),
    "code_interpreter_call": _ItemType(
        "ci_", "fields", result_list="outputs", has_call_id=False, defaults={"outputs": []},
        steps=(("in_progress",), ("interpreting", "completed")),
    ),
    IMAGE_CALL: _ItemType(
        "ig_", "fields", has_call_id=False, steps=(("in_progress", "generating"), ("completed",))
    ),
    _MCP_CALL: _ItemType(
        "mcp_", "text", has_call_id=False, steps=_PLAIN_STEPS, has_failed_event=True,
        defaults={"approval_request_id": None, "error": None, "output": None, **_SERVER},
    ),
    "mcp_list_tools": _ItemType(
        "mcpl_", "fields", result_list="tools", has_call_id=False, has_status=False,
        steps=_PLAIN_STEPS, has_failed_event=True, defaults={"tools": [], **_SERVER},
    ),
    "mcp_approval_request": _ItemType(
        "mcpr_", "text", has_call_id=False, has_status=False, may_await_client=True,
        defaults=_SERVER,
    ),
}  # fmt: skip
_OTHER_CALL: Final = _ItemType()
_OTHER_OUTPUT: Final = _ItemType(result_list="output")


def _item_type(kind: str) -> _ItemType:
    other = _OTHER_OUTPUT if kind.endswith(_OUTPUT_TYPE_SUFFIXES) else _OTHER_CALL
    return _ITEM_TYPES.get(kind, other)


def progress_steps(item: Document) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The last segments of an item's progress events, before and after its arguments."""
    item_type = _item_type(item["type"])
    before, after = item_type.steps
    if has_failed(item):
        after = (*after[:-1], *(["failed"] if item_type.has_failed_event else []))
    return before, after


def has_failed(item: Fields) -> bool:
    """Whether the item is that of a call that failed."""
    return bool(item.get("error")) or item.get("status") == "failed"


def awaits_tool_results(items: Sequence[Fields]) -> bool:
    """Whether the model waits for the client to run a tool.

    The provider may have run a tool other than a function: then there is an output, or (at xAI,
    which sends none) a later message.
    """
    calls = [(get_text(item, "type"), get_text(item, "call_id")) for item in items]
    answered_call_ids = {call_id for kind, call_id in calls if kind.endswith("_output")}
    is_waiting = False
    for kind, call_id in calls:
        is_unanswered = call_id not in answered_call_ids
        if kind == _FUNCTION_CALL and is_unanswered:
            return True
        may_wait = _item_type(kind).may_await_client and is_unanswered
        is_waiting = kind != "message" and (is_waiting or may_wait)
    return is_waiting


def decode_item(item: Fields) -> Iterator[Part]:
    """The parts of an output item; none for an unknown type."""
    kind = get_text(item, "type")
    if kind == "message" or (not kind and "content" in item):
        yield from _decode_message(item)
    elif kind == "reasoning":
        yield from _decode_reasoning(item)
    elif kind == _COMPACTION:
        yield Reasoning(
            redacted=text_or_empty(item.get("encrypted_content")) or None,
            metadata=_extra_fields(item, ("encrypted_content",)),
        )
    elif kind.endswith(_OUTPUT_TYPE_SUFFIXES):
        yield ToolResult(
            get_text(item, "call_id"),
            _result_text(item) or get_text(item, "result"),
            get_text(item, "name") or _default_tool_name(kind),
            has_failed(item),
            (
                *_extra_fields(item, ("call_id", "name", "result", *RESULT_FIELDS)),
                *_error_beside_result(item),
            ),
        )
    elif kind.endswith("_call") or kind in UNSUFFIXED_CALL_TYPES:
        yield from _decode_call(item, kind)


def _decode_message(item: Fields) -> Iterator[Part]:
    """Texts and refusals; block types are ignored, since other servers rename them."""
    metadata = _extra_fields(item, ("type", "role", "content"))
    content = item.get("content")
    blocks = [{"text": content}] if isinstance(content, str) else array_objects(content)
    for block in blocks:
        text, refusal = text_or_empty(block.get("text")), text_or_empty(block.get("refusal"))
        citations = tuple(map(_decode_citation, get_objects(block, "annotations")))
        if text or citations:
            logprobs = select_metadata(block, ("logprobs",))
            yield Text(text, citations, (*metadata, *logprobs))
        if refusal:
            yield Refusal(refusal, metadata)


def _decode_citation(annotation: Fields) -> Citation:
    """A cited page or file; the position in a file goes into the metadata."""
    is_page = annotation.get("type") == _URL_CITATION
    known = (*_CITATION_FIELDS, "type" if is_page else "filename")
    return Citation(
        url=get_text(annotation, "url"),
        title=value_as_text(annotation.get("title") or annotation.get("filename")),
        quoted=get_text(annotation, "content"),
        span=get_span(annotation, "start_index", "end_index"),
        metadata=metadata_except(annotation, known),
    )


def _decode_reasoning(item: Fields) -> Iterator[Part]:
    """One part per summary and reasoning text; the last one holds the encrypted content."""
    metadata = _extra_fields(item, ("type", "summary", "content", "encrypted_content"))
    blocks = [
        block
        for name in ("summary", "content")
        for block in get_objects(item, name)
        if get_string(block, "text")
    ] or [{}]
    encrypted = text_or_empty(item.get("encrypted_content")) or None
    for number, block in enumerate(blocks, start=1):
        yield Reasoning(
            text_or_empty(block.get("text")),
            redacted=encrypted if number == len(blocks) else None,
            metadata=(*metadata, *select_metadata(block, ("type",))),
        )


def _decode_call(item: Fields, kind: str) -> Iterator[Part]:
    """A call, and its result or image where the provider ran it."""
    call_id = get_text(item, "call_id") or get_text(item, "id")
    name = get_text(item, "name") or _default_tool_name(kind)
    known = (*_CALL_FIELDS, *_FURTHER_CALL_FIELDS.get(kind, ()))
    yield ToolCall(call_id, name, _arguments_text(item), _extra_fields(item, known))
    image_base64 = text_or_empty(item.get("result")) if kind == IMAGE_CALL else ""
    if image_base64:
        yield Media(
            f"image/{get_text(item, IMAGE_FIELDS[0]) or '*'}",
            base64=image_base64,
            metadata=(("id", call_id), *select_metadata(item, IMAGE_FIELDS[1:])),
        )
    elif any(item.get(field) for field in RESULT_FIELDS) or item.get("output") == "":
        error = _error_beside_result(item)
        yield ToolResult(call_id, _result_text(item), name, has_failed(item), error)


def _default_tool_name(kind: str) -> str:
    return kind.removesuffix("_output").removesuffix("_call")


def _arguments_text(item: Fields) -> str:
    """The arguments as JSON text; the input of a custom tool as it is."""
    for name in _TEXT_ARGUMENT_FIELDS:
        if name in item:
            return value_as_text(item[name])
    for name in _OBJECT_ARGUMENT_FIELDS:
        if item.get(name):
            return compact_json(item[name])
    fields = {name: item[name] for name in _INLINE_ARGUMENT_FIELDS if item.get(name)}
    return compact_json(fields) if fields else ""


def _result_text(item: Fields) -> str:
    """The first result field that is set: a string as it is, any other value as JSON text."""
    values = (item[name] for name in RESULT_FIELDS if item.get(name))
    return value_as_text(next(values, ""))


def _error_beside_result(item: Fields) -> Metadata:
    has_result = any(item.get(name) for name in RESULT_FIELDS if name != "error")
    return select_metadata(item, ("error",)) if has_result else ()


def _extra_fields(item: Fields, known: Collection[str]) -> Metadata:
    """The fields that are not known, as metadata; without the status `completed`."""
    status = ("status",) if item.get("status") == "completed" else ()
    return metadata_except(item, (*known, *status))


def representable_part(part: Part, *, has_audio: bool, reasoning_type: str) -> Part | None:
    """The part with the metadata that its item can hold; None for media that is no item or audio.

    A text of reasoning without a type is of `reasoning_type`.  A call or a result keeps any
    metadata if it was decoded from an item of its own type.
    """
    fields: Fields = dict(part.metadata)
    match part:
        case Text():
            entries: Json = [dict(entry) for entry in get_objects(fields, "logprobs")]
            logprobs = select_metadata({"logprobs": entries}, ("logprobs",))
            return replace(part, metadata=(*_text_metadata(part, _MESSAGE_METADATA), *logprobs))
        case Refusal():
            return replace(part, metadata=_text_metadata(part, _MESSAGE_METADATA))
        case Reasoning():
            metadata, kind = _text_metadata(part, ("id", "status", "format")), fields.get("type")
            if part.text:
                kind = kind if kind in (SUMMARY, REASONING_TEXT) else reasoning_type
            elif not part.redacted or kind != _COMPACTION:
                kind = None
            metadata = (*metadata, ("type", kind)) if kind else metadata
            return Reasoning(part.text, redacted=part.redacted or None, metadata=metadata)
        case ToolCall() | ToolResult():
            texts: tuple[str, ...] = ()
            others: list[str] = []
            if original_type(part):
                texts = ("id", "status")
                others = [name for name in fields if name not in (*_CALL_FIELDS, "result", *texts)]
            elif isinstance(part, ToolCall):
                texts, others = ("id", "status", "namespace"), ["caller"]
            if isinstance(part, ToolResult) and part.content:
                others.append("error")
            metadata = (*_text_metadata(part, texts), *select_metadata(fields, others))
            return replace(part, metadata=metadata)
        case Media() if part.media_type.startswith("image/") and part.base64:
            metadata = _text_metadata(part, ("id", *IMAGE_FIELDS[1:]))
            return Media(part.media_type, base64=part.base64, metadata=metadata)
        case Media() if has_audio and is_audio(part) and (part.base64 or part.transcript):
            return Media("audio/*", base64=part.base64, transcript=part.transcript)
        case Media():
            return None


def is_audio(part: Part) -> bool:
    """Whether the part is audio, which is in no item."""
    return isinstance(part, Media) and part.media_type.startswith("audio/")


def is_sent_empty(part: Part) -> bool:
    """Whether it is a text with citations, or reasoning with an ID."""
    if isinstance(part, Text):
        return bool(part.citations)
    return isinstance(part, Reasoning) and bool(_text_metadata(part, ("id",)))


def _text_metadata(part: Part, names: tuple[str, ...]) -> Metadata:
    """The metadata with these names that is text; a status only if it is not `completed`."""
    return tuple(
        (name, value)
        for name, value in selected_fields(part.metadata, names).items()
        if isinstance(value, str) and (name != "status" or value in _UNCOMPLETED_STATUSES)
    )


def original_type(part: Part) -> str:
    """The type of the item that a call or result was decoded from; empty for a function's."""
    kind = dict(part.metadata).get("type")
    if not isinstance(kind, str) or kind == _FUNCTION_CALL:
        return ""
    if isinstance(part, ToolResult):
        return kind if kind.endswith(_OUTPUT_TYPE_SUFFIXES) else ""
    return kind if kind.endswith("_call") or kind in UNSUFFIXED_CALL_TYPES else ""


def encode_items_with_ids(parts: Sequence[Part], context: EncodeContext) -> list[Document]:
    """The items of these parts, each with a unique ID that is no other item's `call_id`."""
    items = encode_items(parts)
    call_ids = {
        item["call_id"]
        for item in items
        if "call_id" in item and not item["type"].endswith(_OUTPUT_TYPE_SUFFIXES)
    }
    used_ids: set[object] = set()
    for ordinal, item in enumerate(items):
        is_taken = item["id"] in used_ids or ("call_id" not in item and item["id"] in call_ids)
        if not item["id"] or is_taken:
            item["id"] = context.fake_identifier(_item_type(item["type"]).id_prefix, ordinal)
        used_ids.add(item["id"])
    return items


def encode_items(parts: Sequence[Part]) -> list[Document]:
    """The items of representable parts but audio; `id` is None where the parts have none."""
    result_positions = _result_position_by_call(parts)
    merged_positions = set(result_positions.values())
    groups: list[list[Part]] = []
    for at, part in enumerate(parts):
        if at in merged_positions or is_audio(part):
            continue
        if groups and _continues_item(groups[-1][-1], part):
            groups[-1].append(part)
        else:
            result_at = result_positions.get(at)
            groups.append([part] if result_at is None else [part, parts[result_at]])
    return list(map(_encode_item, groups))


def _result_position_by_call(parts: Sequence[Part]) -> dict[int, int]:
    """The position of each call whose item holds its result or image, and of that."""
    positions: dict[int, int] = {}
    call_positions = {part.id: at for at, part in enumerate(parts) if isinstance(part, ToolCall)}
    for at, part in enumerate(parts):
        match part:
            case ToolResult() if not original_type(part):
                call_at = call_positions.get(part.call_id)
            case Media() if not is_audio(part):
                call_at = call_positions.get(str(dict(part.metadata).get("id", "")))
            case _:
                continue
        if call_at is None or call_at in positions:
            continue
        # The item of an image call holds an image or an error, that of any other call any result.
        is_image_call = original_type(parts[call_at]) == IMAGE_CALL
        is_error = isinstance(part, ToolResult) and part.failed and bool(part.content)
        if is_image_call is isinstance(part, Media) or (is_image_call and is_error):
            positions[call_at] = at
    return positions


def _continues_item(last: Part, part: Part) -> bool:
    """Whether both parts are blocks of one item."""
    match last, part:
        case ((Text() | Refusal()), (Text() | Refusal())):
            return _fields_except(last, "logprobs") == _fields_except(part, "logprobs")
        case Reasoning(), Reasoning():
            kinds = [dict(reasoning.metadata).get("type") for reasoning in (last, part)]
            return (
                bool(last.text and part.text)
                and not last.redacted
                and kinds != [REASONING_TEXT, SUMMARY]
                and _fields_except(last, "type") == _fields_except(part, "type")
            )
        case _:
            return False


def _fields_except(part: Part, *names: str) -> Document:
    return {name: value for name, value in part.metadata if name not in names}


def _encode_item(group: Sequence[Part]) -> Document:
    match group:
        case [Reasoning(), *_]:
            return _encode_reasoning([part for part in group if isinstance(part, Reasoning)])
        case [ToolCall() as call, Media() as image]:
            return _encode_image(image, call)
        case [ToolCall() as call, ToolResult() as result]:
            return _encode_call(call, result)
        case [ToolCall() as call]:
            return _encode_call(call, None)
        case [ToolResult() as result]:
            return _encode_result(result)
        case [Media() as image]:
            item_id = str(dict(image.metadata).get("id", ""))
            return _encode_image(image, ToolCall(item_id, "", "", (("type", IMAGE_CALL),)))
        case _:
            return _encode_message(group)


def _encode_message(blocks: Sequence[Part]) -> Document:
    fields = _fields_except(blocks[0], "logprobs")
    return {
        "id": fields.pop("id", None),
        "type": "message",
        "status": fields.pop("status", "completed"),
        "role": "assistant",
        "content": [
            {
                "type": "output_text",
                "text": block.text,
                "annotations": list(map(_encode_annotation, block.citations)),
                "logprobs": dict(block.metadata).get("logprobs", []),
            }
            if isinstance(block, Text)
            else {"type": "refusal", "refusal": block.text}
            for block in blocks
            if isinstance(block, Text | Refusal)
        ],
        **fields,
    }


def _encode_annotation(citation: Citation) -> Document:
    """A citation of a page, or of a file by its type in the metadata."""
    start, end = citation.span or (0, 0)
    span = {"start_index": start, "end_index": end} if start < end else {}
    fields: Fields = dict(citation.metadata)
    if fields.get("type") in _FILE_CITATIONS:
        texts = {"filename": citation.title, "url": citation.url, "content": citation.quoted}
        known_texts = {name: text for name, text in texts.items() if text}
        others = metadata_except(fields, (*_CITATION_FIELDS, "type", "filename"))
        return {"type": fields["type"], **dict(others), **known_texts, **span}
    return {
        "type": _URL_CITATION,
        **(span or {"start_index": 0, "end_index": 0}),
        "url": citation.url,
        "title": citation.title,
        **({"content": citation.quoted} if citation.quoted else {}),
    }


def _encode_reasoning(blocks: Sequence[Reasoning]) -> Document:
    fields = _fields_except(blocks[0], "type")
    item: Document = {"id": fields.pop("id", None), "type": "reasoning"}
    encrypted = {"encrypted_content": blocks[-1].redacted} if blocks[-1].redacted else {}
    if dict(blocks[0].metadata).get("type") == _COMPACTION:
        return {**item, "type": _COMPACTION, **encrypted, **fields}
    summaries, texts = (
        [
            {"type": kind, "text": block.text}
            for block in blocks
            if block.text and dict(block.metadata)["type"] == kind
        ]
        for kind in (SUMMARY, REASONING_TEXT)
    )
    content = {"content": texts} if texts else {}
    return {**item, "summary": summaries, **content, **encrypted, **fields}


def _encode_image(image: Media, call: ToolCall) -> Document:
    image_format = image.media_type.removeprefix("image/")
    fields: Document = {} if image_format in ("", "*") else {IMAGE_FIELDS[0]: image_format}
    fields |= _fields_except(image, "id")
    return {**_encode_call(call, None), **fields, "result": image.base64}


def _encode_call(call: ToolCall, result: ToolResult | None) -> Document:
    """The item of a call, with its result if there is one."""
    kind = original_type(call) or (_FUNCTION_CALL if result is None else _MCP_CALL)
    item_type = _item_type(kind)
    fields = _fields_except(call, "type")
    failed: bool | None = None
    result_fields: Document = {}
    if result is not None:
        error = dict(result.metadata).get("error")
        if result.failed and result.content and not error:
            error = dict(object_fields(_exact_json(result.content))) or result.content
        else:
            result_fields = _encode_output(item_type, result.content)
        failed = result.failed or bool(error)
        result_fields |= {"error": error} if error else {}
    item = _pop_item_header(kind, fields, failed=failed)
    item["call_id" if item_type.has_call_id else "id"] = call.id
    default_name = _default_tool_name(kind)
    is_named = kind != IMAGE_CALL and call.name not in ("", default_name)
    if is_named or item_type.arguments == "text":
        item["name"] = call.name or default_name
    arguments = _encode_arguments(item_type, call.arguments)
    return {**item, **item_type.defaults, **arguments, **result_fields, **fields}


def _encode_result(result: ToolResult) -> Document:
    """The item of a result that is separate from its call."""
    kind = original_type(result) or f"{_FUNCTION_CALL}_output"
    fields = _fields_except(result, "type")
    error = fields.pop("error", None)
    shows_failure = bool(error) and fields.get("status") != "failed"
    item = _pop_item_header(kind, fields, failed=result.failed and not shows_failure)
    item["call_id"] = result.call_id or None
    if result.name not in ("", _default_tool_name(kind)):
        item["name"] = result.name
    error_field = {"error": error} if error else {}
    output = _encode_output(_item_type(kind), result.content)
    return {**item, **output, **error_field, **fields}


def _pop_item_header(kind: str, fields: Document, *, failed: bool | None) -> Document:
    """An item's `id`, `type` and `status`, the first and last popped from the fields.

    `failed` is None where only the status shows whether the call failed.
    """
    status = fields.pop("status", None)
    if failed:
        status = "failed"
    elif failed is False and status == "failed":
        status = None
    item: Document = {"id": fields.pop("id", None), "type": kind}
    if status or _item_type(kind).has_status:
        item["status"] = status or "completed"
    return item


def _encode_arguments(item_type: _ItemType, arguments: str) -> Document:
    if item_type.arguments == "text":
        return {item_type.argument_field: arguments}
    if arguments in ("", "{}"):
        return {}
    fields, names = parse_object(arguments.encode()), _INLINE_ARGUMENT_FIELDS
    if item_type.arguments == "object":
        fields, names = {item_type.argument_field: dict(fields)}, (item_type.argument_field,)
    kept = selected_fields(fields, names)
    is_exact = item_type.arguments != "" and len(kept) == len(fields)
    return kept if is_exact else {"arguments": arguments}


def _encode_output(item_type: _ItemType, content: str) -> Document:
    """The result field: a list of objects where the item has one, else text."""
    value = _exact_json(content) if item_type.result_list else None
    objects = array_objects(value)
    if objects and objects == value:
        return {item_type.result_list: objects}
    return {item_type.result_text: content}


def _exact_json(text: str) -> Json:
    """The value whose compact JSON text this is; None if there is none."""
    with suppress(ValueError):
        value = parse_json(text.encode())
        return value if compact_json(value) == text else None
    return None
