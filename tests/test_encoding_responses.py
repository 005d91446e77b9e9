from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import httpx2
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import corpus
from case_tables import each_row
from conformance_cases import CASES, Case
from dialect_manners import COMMON_TURNS, ENCODE_CONTEXT, json_request
from llm_proxy import framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.encoding import AccountLimits, EncodeContext, RateLimitWindow
from llm_proxy.dialects.openai import output_items
from llm_proxy.dialects.openai.responses import OpenAIResponses
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request, ResponseHead, header_value
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import (
    Citation,
    Failure,
    FinishReason,
    Json,
    Media,
    Metadata,
    Part,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)
from thoroughness import is_thorough, quick_or_thorough

DIALECT: Final = OpenAIResponses()
PATH: Final = "/v1/responses"
Event = dict[str, Any]


def responses_request(*, stream: bool = True, path: str = PATH, **body: Any) -> Request:
    return json_request(path, model="gpt-5", stream=stream, **body)


def events(response: DialectResponse) -> list[Event]:
    parsed_events = [parse_event(message) for message in response.framed_messages]
    event_documents = [json.loads(item.data or b"") for item in parsed_events]
    assert [item.event_type for item in parsed_events] == [item["type"] for item in event_documents]
    return event_documents


def encode_events(turn: Turn, request: Request | None = None) -> list[Event]:
    return events(DIALECT.encode_response(request or responses_request(), (turn,), ENCODE_CONTEXT))


def event_types(event_documents: Sequence[Event]) -> list[str]:
    """The types of events, with consecutive repetitions collapsed."""
    types = [str(item["type"]).removeprefix("response.") for item in event_documents]
    return [
        event_type
        for position, event_type in enumerate(types)
        if position == 0 or types[position - 1] != event_type
    ]


def document(turn: Turn, **body: Any) -> dict[str, Any]:
    response = DIALECT.encode_response(
        responses_request(stream=False, **body), (turn,), ENCODE_CONTEXT
    )
    response_document: dict[str, Any] = json.loads(response.framed_messages[0])
    return response_document


def convert_parts(*parts: Part, finish: FinishReason | None = None, **body: Any) -> Turn:
    [turn] = DIALECT.representable_turns(
        responses_request(**body), [Turn(parts, finish)], ENCODE_CONTEXT
    ).turns
    return turn


def losses(*parts: Part) -> tuple[str, ...]:
    return DIALECT.representable_turns(responses_request(), [Turn(parts)], ENCODE_CONTEXT).losses


START_EVENTS: Final = ["created", "in_progress"]
MESSAGE_EVENTS: Final = [
    "output_item.added", "content_part.added", "output_text.delta", "output_text.done",
    "content_part.done", "output_item.done",
]  # fmt: skip
CALL_EVENTS: Final = [
    "output_item.added", "function_call_arguments.delta", "function_call_arguments.done",
    "output_item.done",
]  # fmt: skip


def test_a_summary_and_a_text_have_openais_events() -> None:
    stream_events = encode_events(Turn((Reasoning("Thinking."), Text("Hello")), FinishReason.STOP))

    summary = "reasoning_summary"
    assert event_types(stream_events) == [
        *START_EVENTS,
        "output_item.added", f"{summary}_part.added", f"{summary}_text.delta",
        f"{summary}_text.done", f"{summary}_part.done", "output_item.done",
        *MESSAGE_EVENTS,
        "completed",
    ]  # fmt: skip
    assert [item["sequence_number"] for item in stream_events] == list(range(len(stream_events)))


EVENT_FIELDS: Final = {
    "response.created": "response",
    "response.output_item.added": "output_index item",
    "response.output_item.done": "output_index item",
    "response.reasoning_summary_part.added": "item_id output_index summary_index part",
    "response.reasoning_summary_text.delta": "item_id output_index summary_index delta",
    "response.reasoning_summary_text.done": "item_id output_index summary_index text",
    "response.content_part.added": "item_id output_index content_index part",
    "response.output_text.delta": "item_id output_index content_index delta logprobs",
    "response.output_text.done": "item_id output_index content_index text logprobs",
    "response.content_part.done": "item_id output_index content_index part",
    "response.refusal.delta": "item_id output_index content_index delta",
    "response.refusal.done": "item_id output_index content_index refusal",
    "response.function_call_arguments.delta": "item_id output_index delta",
    "response.function_call_arguments.done": "item_id output_index name arguments",
    "response.completed": "response",
}
"""The fields of OpenAI's events other than their type and number."""


def test_each_event_has_the_fields_of_openais() -> None:
    turn = Turn((Reasoning("Hm."), Text("a"), Refusal("b"), ToolCall("call_1", "f", "{}")))
    event_by_type = {item["type"]: item for item in encode_events(turn)}

    assert {
        kind: set(event_by_type[kind]) - {"type", "sequence_number"} for kind in EVENT_FIELDS
    } == {kind: set(fields.split()) for kind, fields in EVENT_FIELDS.items()}
    assert event_by_type["response.output_text.delta"]["logprobs"] == []


def test_a_response_has_the_fields_of_openais_from_the_first_event_on() -> None:
    stream_events = encode_events(Turn((Text("a"),)))

    fields = set(
        """id object created_at status background completed_at error frequency_penalty
        incomplete_details instructions max_output_tokens max_tool_calls model output
        parallel_tool_calls presence_penalty previous_response_id prompt_cache_key
        prompt_cache_retention reasoning safety_identifier store temperature text tool_choice tools
        top_logprobs top_p truncation usage user metadata""".split()  # noqa: SIM905 # readable
    )
    first, last = stream_events[0]["response"], stream_events[-1]["response"]
    assert set(first) == set(last) == fields
    assert (first["status"], first["output"], first["usage"]) == ("in_progress", [], None)
    assert (last["status"], len(last["output"])) == ("completed", 1)


def test_a_response_repeats_the_request_fields() -> None:
    request_fields: dict[str, Any] = {
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "f", "parameters": {}}],
        "tool_choice": "required",
        "temperature": 0.5,
        "metadata": {"run": "7"},
        "store": False,
        "previous_response_id": "resp_0",
    }
    response_document = document(Turn((Text("a"),)), reasoning={"effort": "low"}, **request_fields)

    assert {name: response_document[name] for name in request_fields} == request_fields
    assert response_document["reasoning"] == {"effort": "low", "summary": None}
    assert dict(convert_parts(Text("a"), **request_fields).metadata) == {
        "previous_response_id": "resp_0"
    }


def test_calls_are_streamed_one_after_the_other() -> None:
    calls = (ToolCall("call_a", "f", '{"a":1}'), ToolCall("call_b", "f", '{"b":2}'))
    stream_events = encode_events(Turn(calls))

    assert event_types(stream_events) == [*START_EVENTS, *CALL_EVENTS, *CALL_EVENTS, "completed"]
    done = [item["item"] for item in stream_events if item["type"] == "response.output_item.done"]
    assert stream_events[-1]["response"]["output"] == done
    assert [item["call_id"] for item in done] == ["call_a", "call_b"]


def test_an_item_is_the_same_one_from_its_first_event_to_the_last_of_all() -> None:
    stream_events = encode_events(
        Turn((Text("a"), ToolCall("", "f", ""), ToolCall("", "f", ""), Text("b")))
    )

    added, done = (
        [item["item"] for item in stream_events if item["type"] == f"response.output_item.{step}"]
        for step in ("added", "done")
    )
    identity = [(item["id"], item["type"], item.get("call_id")) for item in added]
    assert identity == [(item["id"], item["type"], item.get("call_id")) for item in done]
    assert len({item["id"] for item in added}) == 4
    assert {item["status"] for item in added} == {"in_progress"}
    assert {item["item_id"] for item in stream_events if "item_id" in item} == {
        item["id"] for item in added
    }
    assert added[0]["content"] == []
    assert added[1]["arguments"] == ""


def test_parts_with_one_id_are_one_message_and_others_are_not() -> None:
    first_id, second_id = (("id", "msg_1"),), (("id", "msg_2"),)
    parts = (
        Text("a", metadata=first_id),
        Refusal("b", metadata=first_id),
        Text("c", metadata=second_id),
    )

    assert [len(item["content"]) for item in document(Turn(parts))["output"]] == [2, 1]


def test_a_repeated_id_is_replaced() -> None:
    first_id: Metadata = (("id", "msg_1"),)
    parts = convert_parts(
        Text("a", metadata=first_id), Reasoning("b"), Text("c", metadata=first_id)
    ).parts

    ids = [dict(part.metadata)["id"] for part in parts]
    assert ids[0] == "msg_1"
    assert len(set(ids)) == 3


def test_logprobs_come_with_their_tokens() -> None:
    logprobs: list[Json] = [{"token": "He", "logprob": -0.1}, {"token": "llo", "logprob": -0.2}]
    stream_events = encode_events(Turn((Text("Hello", metadata=(("logprobs", logprobs),)),)))

    deltas = [item for item in stream_events if item["type"] == "response.output_text.delta"]
    assert [(delta["delta"], delta["logprobs"]) for delta in deltas] == [
        ("He", logprobs[:1]),
        ("llo", logprobs[1:]),
    ]
    [done] = [item for item in stream_events if item["type"] == "response.output_text.done"]
    assert done["logprobs"] == logprobs


def test_citations_follow_the_text_and_name_pages_and_files() -> None:
    page = Citation("https://a.b", "A", span=(0, 2))
    file = Citation(
        "", "a.pdf", metadata=(("type", "file_citation"), ("file_id", "f"), ("index", 0))
    )
    stream_events = encode_events(Turn((Text("Hi", (page, file)),)))

    annotation_events = [
        item for item in stream_events if item["type"] == "response.output_text.annotation.added"
    ]
    assert [item["annotation_index"] for item in annotation_events] == [0, 1]
    assert [item["annotation"] for item in annotation_events] == [
        {"type": "url_citation", "start_index": 0, "end_index": 2, "url": "https://a.b",
         "title": "A"},
        {"type": "file_citation", "file_id": "f", "index": 0, "filename": "a.pdf"},
    ]  # fmt: skip


def call(kind: str, arguments: str, *more: tuple[str, Any]) -> ToolCall:
    return ToolCall("x_1", kind.removesuffix("_call"), arguments, (("type", kind), *more))


FAILED_RESULT: Final = ToolResult(
    "x_1", '{"type":"http_error","code":500,"message":"no"}', "mcp", failed=True
)
SEARCH_EVENTS: Final = ["output_item.added", "K.in_progress", "K.searching", "K.completed"]

TOOL_CASES: Final = {
    "web_search_call": ((call("web_search_call", '{"type":"search","query":"a"}'),), SEARCH_EVENTS),
    "file_search_call": ((call("file_search_call", '{"queries":["a"]}'),), SEARCH_EVENTS),
    "code_interpreter_call": (
        (
            call("code_interpreter_call", '{"code":"1+1"}', ("container_id", "c")),
            ToolResult("x_1", '[{"type":"logs","logs":"2"}]', "code_interpreter"),
        ),
        ["output_item.added", "K.in_progress", "K_code.delta", "K_code.done", "K.interpreting",
         "K.completed"],
    ),
    "mcp_call": (
        (call("mcp_call", '{"a":1}', ("server_label", "s")), ToolResult("x_1", "", "mcp")),
        ["output_item.added", "K.in_progress", "K_arguments.delta", "K_arguments.done",
         "K.completed"],
    ),
    "mcp_call that fails": (
        (call("mcp_call", '{"a":1}', ("server_label", "s")), FAILED_RESULT),
        ["output_item.added", "K.in_progress", "K_arguments.delta", "K_arguments.done", "K.failed"],
    ),
    "mcp_list_tools": (
        (ToolCall("x_1", "mcp_list_tools", "", (("type", "mcp_list_tools"),)),),
        ["output_item.added", "K.in_progress", "K.completed"],
    ),
    "image_generation_call": (
        (
            call("image_generation_call", '{"prompt":"a boat"}'),
            Media("image/png", base64="aGk=", metadata=(("id", "x_1"), ("size", "1x1"))),
        ),
        ["output_item.added", "K.in_progress", "K.generating", "K.completed"],
    ),
    "custom_tool_call": (
        (call("custom_tool_call", "free text"),),
        ["output_item.added", "K_input.delta", "K_input.done"],
    ),
    "shell_call": (
        (call("shell_call", '{"commands":["ls","pwd"]}'),),
        ["output_item.added", *(["K_command.added", "K_command.delta", "K_command.done"] * 2)],
    ),
    "apply_patch_call": (
        (call("apply_patch_call", '{"type":"create_file","diff":"+a"}'),),
        ["output_item.added", "K_operation_diff.delta", "K_operation_diff.done"],
    ),
    "local_shell_call": (
        (call("local_shell_call", '{"type":"exec","command":["ls"]}'),), ["output_item.added"],
    ),
    "tool_search_call": ((call("tool_search_call", '{"paths":["a"]}'),), ["output_item.added"]),
    "tomorrow_call": ((call("tomorrow_call", '{"a":1}'),), ["output_item.added"]),
    "shell_call_output": (
        (ToolResult("x_1", '[{"stdout":"a"}]', metadata=(("type", "shell_call_output"),)),),
        ["output_item.added", "K_content.delta", "K_content.done"],
    ),
}  # fmt: skip


@each_row("name", TOOL_CASES)
def test_openais_tools_have_openais_events(name: str) -> None:
    parts, expected = TOOL_CASES[name]
    kind = name.partition(" ")[0]
    stream_events = encode_events(Turn(parts))

    steps = [entry.replace("K", kind, 1) if entry.startswith("K") else entry for entry in expected]
    assert event_types(stream_events) == [*START_EVENTS, *steps, "output_item.done", "completed"]
    assert [type(part) for part in convert_parts(*parts).parts] == [type(part) for part in parts]
    assert losses(*parts) == ()
    [item] = stream_events[-1]["response"]["output"]
    assert item["type"] == kind


def test_as_many_partial_images_are_sent_as_requested() -> None:
    tools = [{"type": "image_generation", "partial_images": 2}]
    stream_events = encode_events(
        Turn((Media("image/png", base64="aGk="),)), responses_request(tools=tools)
    )

    partial_images = [item for item in stream_events if item["type"].endswith(".partial_image")]
    assert [item["partial_image_index"] for item in partial_images] == [0, 1]
    assert {item["partial_image_b64"] for item in partial_images} == {"aGk="}


def test_a_provider_tool_becomes_an_mcp_call_and_the_turn_does_not_wait() -> None:
    provider_call = ToolCall("srv_1", "search", '{"q":"a"}')
    turn = convert_parts(
        provider_call,
        ToolResult("srv_1", "found", "search"),
        Text("Yes."),
        finish=FinishReason.STOP,
    )

    [item, _] = document(turn)["output"]
    assert (item["type"], item["name"], item["arguments"], item["output"]) == (
        "mcp_call", "search", '{"q":"a"}', "found",
    )  # fmt: skip
    assert turn.finish is FinishReason.STOP


def test_results_move_to_their_calls_and_the_move_is_a_loss() -> None:
    calls = (ToolCall("a", "f", "{}"), ToolCall("b", "g", "{}"))
    results = (ToolResult("a", "1"), ToolResult("b", "2"))

    converted_parts = convert_parts(*calls, *results).parts
    assert [item.call_id if isinstance(item, ToolResult) else "" for item in converted_parts] == [
        "",
        "a",
        "",
        "b",
    ]
    assert "the order of parts" in losses(*calls, *results)


def test_a_call_of_a_function_waits_and_one_of_the_providers_does_not() -> None:
    search = call("web_search_call", '{"type":"search"}')

    assert convert_parts(ToolCall("a", "f", "{}")).finish is FinishReason.TOOL_CALLS
    assert convert_parts(search).finish is FinishReason.STOP
    assert convert_parts(search, ToolCall("a", "f", "{}")).finish is FinishReason.TOOL_CALLS


def test_reasoning_in_several_items_is_encrypted_item_by_item() -> None:
    parts = (
        Reasoning("a", redacted="s1", metadata=(("id", "rs_1"), ("type", "summary_text"))),
        Reasoning("b", metadata=(("id", "rs_2"), ("type", "summary_text"))),
        Reasoning("c", redacted="s2", metadata=(("id", "rs_2"), ("type", "reasoning_text"))),
        Reasoning(metadata=(("id", "rs_3"),)),
    )
    assert convert_parts(*parts).parts == parts
    assert [
        (len(item["summary"]), len(item.get("content", ())), item.get("encrypted_content"))
        for item in document(Turn(parts))["output"]
    ] == [(1, 0, "s1"), (1, 1, "s2"), (0, 0, None)]


def test_open_models_send_reasoning_content_and_others_summaries() -> None:
    documents = [
        json.loads(
            DIALECT.encode_response(
                responses_request(stream=False), [Turn((Reasoning("a"),))], item
            ).framed_messages[0]
        )
        for item in (ENCODE_CONTEXT, replace(ENCODE_CONTEXT, provider="vllm"))
    ]
    assert [list(filter(item["output"][0].get, ("summary", "content"))) for item in documents] == [
        ["summary"],
        ["content"],
    ]


@each_row(
    ("finish", "raw", "status", "reason"),
    [
        (FinishReason.STOP, "", "completed", None),
        (FinishReason.LENGTH, "", "incomplete", {"reason": "max_output_tokens"}),
        (FinishReason.CONTENT_FILTER, "", "incomplete", {"reason": "content_filter"}),
        (FinishReason.REFUSAL, "", "incomplete", {"reason": "content_filter"}),
        (FinishReason.ERROR, "", "failed", None),
        (FinishReason.OTHER, "cancelled", "cancelled", None),
        (FinishReason.OTHER, "incomplete", "incomplete", None),
        (FinishReason.OTHER, "tired", "incomplete", {"reason": "tired"}),
        (FinishReason.OTHER, "queued", "incomplete", {"reason": "queued"}),
        (FinishReason.PAUSED, "", "completed", None),
        (FinishReason.TOOL_CALLS, "", "completed", None),
    ],
)
def test_the_last_event_has_the_status_and_the_reason(
    finish: FinishReason, raw: str, status: str, reason: object
) -> None:
    last = encode_events(Turn((Text("a"),), finish, raw))[-1]

    assert last["type"] == f"response.{status}"
    assert last["response"]["status"] == status
    assert last["response"]["incomplete_details"] == reason


def test_a_refusal_has_the_status_completed() -> None:
    assert convert_parts(Refusal("No."), finish=FinishReason.REFUSAL).finish_raw == "completed"


def test_the_last_item_of_what_is_incomplete_is_incomplete() -> None:
    response_document = document(
        Turn((Text("a"), ToolCall("c", "f", "{}"), Text("b")), FinishReason.LENGTH)
    )

    assert [item["status"] for item in response_document["output"]] == [
        "completed",
        "completed",
        "incomplete",
    ]


def test_a_background_response_is_in_progress() -> None:
    request = responses_request(stream=False, background=True)
    response = DIALECT.encode_response(request, [Turn((), FinishReason.PAUSED)], ENCODE_CONTEXT)

    assert json.loads(response.framed_messages[0])["status"] == "in_progress"
    assert event_types(encode_events(Turn(()), responses_request(background=True))) == [
        "created", "queued", "in_progress", "completed",
    ]  # fmt: skip


def test_an_error_amid_a_stream_leaves_the_last_item_open_and_is_sent_twice() -> None:
    turn = Turn((Text("a"), ToolCall("c", "f", "{}")), failure=Failure("Oh no", "t", "c"))
    stream_events = encode_events(turn)

    assert event_types(stream_events) == [
        *START_EVENTS, *MESSAGE_EVENTS, *CALL_EVENTS[:2], "error", "failed",
    ]  # fmt: skip
    assert stream_events[-2]["error"] == {
        "message": "Oh no",
        "type": "t",
        "param": None,
        "code": "c",
    }
    assert stream_events[-1]["response"]["error"] == {"code": "c", "message": "Oh no"}
    assert stream_events[-1]["response"]["output"][-1]["status"] == "incomplete"


def test_an_error_has_a_default_type_and_code() -> None:
    error = encode_events(Turn((), failure=Failure("Oh no", "error")))[-2]["error"]

    assert (error["type"], error["code"]) == ("server_error", "server_error")


def test_a_stream_that_is_fetched_goes_on_after_the_event_that_is_named() -> None:
    turn = Turn((Text("Hello"),), id="resp_other")
    whole, remaining = (
        events(DIALECT.encode_response(item, [turn], ENCODE_CONTEXT))
        for item in (
            Request("GET", f"{PATH}/resp_1", "stream=true", (), b""),
            Request("GET", f"{PATH}/resp_1", "stream=true&starting_after=4", (), b""),
        )
    )
    assert remaining == whole[5:]
    assert whole[0]["response"]["id"] == "resp_1"


def test_a_compacted_conversation_is_no_response() -> None:
    compaction = Reasoning(redacted="s", metadata=(("type", "compaction"),))
    response = DIALECT.encode_response(
        responses_request(path=f"{PATH}/compact"), [Turn((compaction,))], ENCODE_CONTEXT
    )

    compaction_document = json.loads(response.framed_messages[0])
    assert compaction_document["object"] == "response.compaction"
    assert [
        (item["type"], item["encrypted_content"]) for item in compaction_document["output"]
    ] == [("compaction", "s")]


def test_audio_is_encoded_only_in_streams_and_once() -> None:
    sound = Media("audio/wav", base64="aGk=", transcript="Hi")
    stream_events = encode_events(Turn((sound, Text("a"))))

    assert event_types(stream_events)[-5:-1] == [
        "audio.delta", "audio.done", "audio.transcript.delta", "audio.transcript.done",
    ]  # fmt: skip
    with pytest.raises(NotRepresentable, match="one sound"):
        encode_events(Turn((sound, sound)))
    with pytest.raises(NotRepresentable, match="media"):
        document(Turn((sound,)))


def test_an_image_url_is_not_representable() -> None:
    with pytest.raises(NotRepresentable, match="media"):
        encode_events(Turn((Media("image/png", url="https://a.b/c.png"),)))


def _non_empty_parts(parts: Sequence[Part]) -> list[tuple[str, str]]:
    """The type and the text or arguments of each part that deltas carry."""
    return [
        (type(part).__name__, part.arguments if isinstance(part, ToolCall) else part.text)
        for part in parts
        if isinstance(part, Text | Refusal | Reasoning | ToolCall)
        if isinstance(part, ToolCall) or part.text
    ]


@given(COMMON_TURNS)
def test_the_deltas_hold_what_the_final_response_holds(turn: Turn) -> None:
    response = DIALECT.encode_response(
        responses_request(), [replace(turn, failure=None)], ENCODE_CONTEXT
    )
    deltas_only = [
        message for message in response.framed_messages[:-1] if b".done\n" not in message
    ]

    [decoded] = DIALECT.decode_response(response)
    [from_deltas] = DIALECT.decode_response(replace(response, framed_messages=deltas_only)) or (
        Turn(()),
    )
    assert _non_empty_parts(from_deltas.parts) == _non_empty_parts(decoded.parts)


IDS = st.integers(0, 10**6).map(str)
SHORT_TEXTS = st.text(max_size=20)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b"]), SHORT_TEXTS | st.integers(0, 9), min_size=1)
ANNOTATIONS = st.lists(
    st.fixed_dictionaries(
        {"type": st.just("url_citation"), "url": SHORT_TEXTS, "title": SHORT_TEXTS,
         "start_index": st.integers(0, 9), "end_index": st.integers(0, 9)}
    )
    | st.fixed_dictionaries(
        {"type": st.just("file_citation"), "file_id": IDS, "filename": SHORT_TEXTS,
         "index": st.integers(0, 9)}
    ),
    max_size=2,
)  # fmt: skip
BLOCKS = st.fixed_dictionaries(
    {"type": st.just("output_text"), "text": SHORT_TEXTS, "annotations": ANNOTATIONS,
     "logprobs": st.just([])}
) | st.fixed_dictionaries({"type": st.just("refusal"), "refusal": SHORT_TEXTS})  # fmt: skip
STATUSES = st.sampled_from(["completed", "in_progress", "incomplete"])


def _thought_items(kind: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(st.fixed_dictionaries({"type": st.just(kind), "text": SHORT_TEXTS}), max_size=2)


def _item(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"type": st.just(kind), **fields})


ITEMS = st.one_of(
    _item("message", status=STATUSES, content=st.lists(BLOCKS, max_size=3), phase=SHORT_TEXTS),
    _item(
        "reasoning",
        summary=_thought_items("summary_text"),
        content=_thought_items("reasoning_text"),
        encrypted_content=st.none() | IDS,
    ),
    _item("compaction", encrypted_content=IDS),
    _item("function_call", status=STATUSES, call_id=IDS, name=IDS, arguments=IDS),
    _item("custom_tool_call", status=STATUSES, call_id=IDS, name=IDS, input=IDS),
    _item("web_search_call", status=STATUSES, action=OBJECTS),
    _item("file_search_call", queries=st.lists(IDS), results=st.none() | st.lists(OBJECTS)),
    _item("code_interpreter_call", code=SHORT_TEXTS, outputs=st.lists(OBJECTS), container_id=IDS),
    _item("image_generation_call", result=st.none() | IDS, prompt=SHORT_TEXTS, size=IDS),
    _item(
        "mcp_call",
        status=st.sampled_from(["completed", "failed"]),
        name=IDS,
        arguments=IDS,
        output=st.none() | SHORT_TEXTS,
        error=st.none() | OBJECTS | SHORT_TEXTS,
        server_label=IDS,
    ),
    _item("mcp_list_tools", server_label=IDS, tools=st.lists(OBJECTS)),
    _item("mcp_approval_request", server_label=IDS, name=IDS, arguments=IDS),
    _item("shell_call", call_id=IDS, action=OBJECTS, status=STATUSES, environment=OBJECTS),
    _item("shell_call_output", call_id=IDS, output=st.lists(OBJECTS), status=STATUSES),
    _item("apply_patch_call", call_id=IDS, operation=OBJECTS),
    _item("program", call_id=IDS, code=SHORT_TEXTS, fingerprint=IDS),
    _item("program_output", call_id=IDS, result=SHORT_TEXTS),
    _item("tool_search_call", call_id=st.none() | IDS, arguments=OBJECTS, execution=IDS),
    _item("tool_search_output", call_id=st.none(), tools=st.lists(OBJECTS)),
    _item("tomorrow_call", call_id=IDS, status=STATUSES, arguments=IDS, novelty=OBJECTS),
)


@given(st.lists(ITEMS, max_size=5), st.booleans())
@settings(max_examples=quick_or_thorough(40, 200))
def test_any_items_round_trip(
    items: list[dict[str, Any]],
    streams: bool,
) -> None:
    numbered = [{"id": f"item_{number}", **item} for number, item in enumerate(items)]
    turn = Turn(tuple(part for item in numbered for part in output_items.decode_item(item)))
    request = responses_request(stream=streams)
    converted = DIALECT.representable_turns(request, [turn], ENCODE_CONTEXT)

    assert (
        DIALECT.decode_response(DIALECT.encode_response(request, [turn], ENCODE_CONTEXT))
        == converted.turns
    )
    converted_again = DIALECT.representable_turns(request, converted.turns, ENCODE_CONTEXT)
    assert (converted_again.turns, converted_again.losses) == (converted.turns, ())
    assert not [loss for loss in converted.losses if loss != "the order of parts"]


_TYPES: Final = st.sampled_from(
    """mcp_call web_search_call custom_tool_call image_generation_call program tomorrow_call
    function_call function_call_output x_output compaction summary_text reasoning_text
    file_citation failed incomplete a""".split()  # noqa: SIM905 # readable
)
_NAMES: Final = st.sampled_from(
    """id status type error phase caller size call_id output summary content role
    encrypted_content""".split()  # noqa: SIM905 # readable
)
_METADATA: Final = st.dictionaries(_NAMES, _TYPES | OBJECTS, max_size=4).map(
    lambda metadata: tuple(metadata.items())
)
_CALL_IDS: Final = st.sampled_from(["", "a", "b"])
ANY_PARTS: Final = st.lists(
    st.builds(Text, SHORT_TEXTS, metadata=_METADATA)
    | st.builds(Refusal, SHORT_TEXTS, _METADATA)
    | st.builds(Reasoning, SHORT_TEXTS, redacted=st.none() | IDS, metadata=_METADATA)
    | st.builds(ToolCall, _CALL_IDS, IDS, IDS | OBJECTS.map(json.dumps), _METADATA)
    | st.builds(ToolResult, _CALL_IDS, SHORT_TEXTS, IDS, st.booleans(), _METADATA)
    | st.builds(Media, st.just("image/png"), base64=IDS, metadata=_METADATA),
    max_size=5,
)


@given(ANY_PARTS, st.sampled_from([None, *FinishReason]), st.booleans())
@settings(max_examples=quick_or_thorough(40, 200))
def test_any_metadata_decodes_as_it_was_converted(
    parts: list[Part], finish: FinishReason | None, streams: bool
) -> None:
    turn = Turn(tuple(parts), finish)
    request = responses_request(stream=streams)
    converted = DIALECT.representable_turns(request, [turn], ENCODE_CONTEXT)

    assert (
        DIALECT.decode_response(DIALECT.encode_response(request, [turn], ENCODE_CONTEXT))
        == converted.turns
    )
    converted_again = DIALECT.representable_turns(request, converted.turns, ENCODE_CONTEXT)
    assert (converted_again.turns, converted_again.losses) == (converted.turns, ())


def _client(response: DialectResponse) -> openai.OpenAI:
    def handle(_: httpx2.Request) -> httpx2.Response:
        body = b"".join(response.framed_messages)
        return httpx2.Response(response.head.status, headers=[*response.head.headers], content=body)

    return openai.OpenAI(
        api_key="none",
        base_url="http://127.0.0.1/v1",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(handle)),
    )


REPRESENTABLE_CASES: Final = [
    case for case in CASES if case.turn.failure is None and (case.name != "long" or is_thorough())
]


def _sdk_summary(output: Sequence[Any], usage: Any) -> dict[str, Any]:
    blocks = [entry for item in output if item.type == "message" for entry in item.content]
    return {
        "text": "".join(block.text for block in blocks if block.type == "output_text"),
        "refusal": "".join(block.refusal for block in blocks if block.type == "refusal"),
        "reasoning": "".join(
            entry.text for item in output if item.type == "reasoning" for entry in item.summary
        ),
        "calls": [
            (item.call_id, item.name, item.arguments)
            for item in output
            if item.type == "function_call"
        ],
        "usage": Usage(
            usage.input_tokens,
            usage.output_tokens,
            usage.total_tokens,
            usage.input_tokens_details.cached_tokens,
            usage.input_tokens_details.cache_write_tokens,
            usage.output_tokens_details.reasoning_tokens,
        ),
    }


def _turn_summary(turn: Turn) -> dict[str, Any]:
    parts = turn.parts
    return {
        "text": turn.text,
        "refusal": "".join(part.text for part in parts if isinstance(part, Refusal)),
        "reasoning": "".join(part.text for part in parts if isinstance(part, Reasoning)),
        "calls": [
            (part.id, part.name, part.arguments) for part in parts if isinstance(part, ToolCall)
        ],
        "usage": turn.usage,
    }


@each_row("case", REPRESENTABLE_CASES)
def test_the_sdk_assembles_the_encoded_stream(case: Case) -> None:
    response = DIALECT.encode_response(responses_request(), [case.turn], ENCODE_CONTEXT)
    [turn] = DIALECT.decode_response(response)
    with _client(response) as client:
        if turn.finish is FinishReason.LENGTH:  # the SDK helper needs a completed response
            last: Any = list(client.responses.create(model="gpt-5", input="", stream=True))[-1]
            response_model = last.response
        else:
            with client.responses.stream(model="gpt-5", input="") as stream:
                response_model = stream.get_final_response()

    assert _sdk_summary(response_model.output, response_model.usage) == _turn_summary(turn)


@each_row("name", sorted(TOOL_CASES.keys() - {"tomorrow_call"}))
def test_the_sdk_takes_the_tools_of_openai_for_what_they_are(name: str) -> None:
    response = DIALECT.encode_response(
        responses_request(), [Turn(TOOL_CASES[name][0])], ENCODE_CONTEXT
    )
    with _client(response) as client, client.responses.stream(model="m", input="") as stream:
        [item] = stream.get_final_response().output

    assert item.type == name.partition(" ")[0]


def test_the_sdk_raises_the_error_amid_a_stream() -> None:
    turn = Turn((Text("Hel"),), failure=Failure("Oh no", "overloaded", "server_error"))
    with _client(DIALECT.encode_response(responses_request(), [turn], ENCODE_CONTEXT)) as client:
        stream = client.responses.create(model="gpt-5", input="", stream=True)
        with pytest.raises(openai.APIError, match="Oh no") as raised:
            list(stream)
    assert (raised.value.type, raised.value.code) == ("overloaded", "server_error")


QUOTA: Final = AccountLimits(RateLimitWindow(60, 59, 0.5), RateLimitWindow(1000, 900, 63))


@each_row(
    ("status", "raised", "code"),
    [
        (400, openai.BadRequestError, None),
        (401, openai.AuthenticationError, "invalid_api_key"),
        (403, openai.PermissionDeniedError, "unsupported_country_region_territory"),
        (404, openai.NotFoundError, "model_not_found"),
        (429, openai.RateLimitError, "rate_limit_exceeded"),
        (500, openai.InternalServerError, None),
        (503, openai.InternalServerError, None),
    ],
)
def test_the_sdk_raises_what_a_status_stands_for(
    status: int, raised: type[openai.APIStatusError], code: str | None
) -> None:
    context = EncodeContext("test", 1, account_limits=QUOTA)
    response = DIALECT.error_response(status, Failure("Oh no"), context, retry_after=1.5)
    with _client(response) as client, pytest.raises(raised, match="Oh no") as error:
        client.responses.create(model="gpt-5", input="")

    assert error.value.code == code
    assert error.value.request_id == header_value(response.head.headers, "x-request-id")
    headers = dict(response.head.headers)
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("2", "1500")
    assert headers["x-ratelimit-remaining-tokens"] == "900"


def test_an_error_in_place_of_a_document_has_its_status() -> None:
    turn = Turn((Text("a"),), failure=Failure("slow down", code="rate_limit_exceeded"))
    response = DIALECT.encode_response(responses_request(stream=False), [turn], ENCODE_CONTEXT)

    assert response.head.status == 429


STORED_RESPONSE_REQUESTS: Final = [
    ("GET", f"{PATH}/resp_1"),
    ("DELETE", f"{PATH}/resp_1"),
    ("POST", f"{PATH}/resp_1/cancel"),
    ("GET", f"{PATH}/resp_1/input_items"),
]


@each_row(("method", "path"), STORED_RESPONSE_REQUESTS)
def test_stored_responses_are_not_found(method: str, path: str) -> None:
    request = Request(method, path, "", (), b"")
    response = DIALECT.auxiliary_response(request, ENCODE_CONTEXT)

    assert DIALECT.matches(request)
    assert response is not None
    assert response.head.status == 404
    with _client(response) as client, pytest.raises(openai.NotFoundError, match="'resp_1' not"):
        client.responses.retrieve("resp_1")


@each_row("path", [PATH, f"{PATH}/compact", "/openai/responses"])
def test_requests_for_a_turn_have_no_auxiliary_response(path: str) -> None:
    assert DIALECT.auxiliary_response(responses_request(path=path), ENCODE_CONTEXT) is None


def test_a_token_is_counted_for_every_four_characters() -> None:
    message = {"role": "user", "content": [{"type": "input_text", "text": "x" * 10}]}
    request = responses_request(path=f"{PATH}/input_tokens", input=[message], instructions="y" * 7)
    response = DIALECT.auxiliary_response(request, ENCODE_CONTEXT)

    assert response is not None
    with _client(response) as client:
        assert client.responses.input_tokens.count(model="gpt-5", input="").input_tokens == 5


def test_a_deletion_is_no_turn() -> None:
    body = b'{"id":"resp_1","object":"response","deleted":true}'
    head = ResponseHead(200, "OK", (("Content-Type", "application/json"),), "length", len(body))

    assert DIALECT.decode_response(DialectResponse(head, "whole", (body,))) == ()


needs_corpus = pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)

LOSSES_BY_ROW: Final = {
    # A server on Bedrock put fields of an event into the item of the event.
    "e965a3a827b833e1": ("metadata item_id of a tool call", "metadata output_index of a tool call"),
}
RENAMED_PARTS_BY_ROW: Final = {"afdd2d375d41f9d5": 1}
"""How many parts of a row get another id: xAI gave one id to two items."""


def _recorded_responses() -> Iterator[tuple[corpus.Row, DialectResponse]]:
    for row in corpus.rows():
        if not row.wire.startswith("openai.responses.") or row.status != 200:
            continue
        codec = DIALECT.codec_name(row.request, row.head)
        if row.fidelity == "payload-lines":
            lines = [
                b"data: " + splitline + b"\n\n"
                for splitline in row.body.splitlines()
                if splitline.strip()
            ]
            yield row, DialectResponse(row.head, "sse", lines)
        else:
            yield row, DialectResponse(row.head, codec, framing.split_messages(codec, row.body))


def _with_sorted_metadata(part: Part) -> Part:
    return replace(part, metadata=tuple(sorted(dict(part.metadata).items(), key=str)))


@pytest.mark.corpus
@needs_corpus
def test_every_recorded_answer_round_trips() -> None:
    losses_by_row, renamed_by_row, count = {}, {}, 0
    for row, response in _recorded_responses():
        [turn] = DIALECT.decode_response(response)
        request = DIALECT.sample_request(turn.model, stream=response.codec_name == "sse")
        converted = DIALECT.representable_turns(request, [turn], ENCODE_CONTEXT)
        [decoded] = DIALECT.decode_response(
            DIALECT.encode_response(request, [turn], ENCODE_CONTEXT)
        )

        assert (decoded,) == converted.turns, row.id
        assert (decoded.finish_raw, decoded.id, decoded.model) == (
            turn.finish_raw,
            turn.id,
            turn.model,
        )
        assert dict(decoded.metadata) == dict(turn.metadata), row.id
        pairs = list(zip(turn.parts, decoded.parts, strict=True))
        changed = [
            original
            for original, encoded in pairs
            if _with_sorted_metadata(original) != _with_sorted_metadata(encoded)
        ]
        if converted.losses:
            losses_by_row[row.id] = converted.losses
        elif changed:
            renamed_by_row[row.id] = len(changed)
        count += 1
    assert (count, losses_by_row, renamed_by_row) == (207, LOSSES_BY_ROW, RENAMED_PARTS_BY_ROW)
