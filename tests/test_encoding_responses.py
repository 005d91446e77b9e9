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
from conformance_cases import CASES, Case
from dialect_manners import DELIVERY, TALKS, asking
from llm_proxy import framing
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.encode_context import AccountLimits, EncodeContext, RateLimitWindow
from llm_proxy.dialects.openai import output_item_decoder
from llm_proxy.dialects.openai.responses import OpenAIResponses
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request, ResponseHead, header_value
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import (
    Citation,
    Failure,
    Finish,
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

DIALECT: Final = OpenAIResponses()
PATH: Final = "/v1/responses"
Event = dict[str, Any]


def asked(*, stream: bool = True, path: str = PATH, **body: Any) -> Request:
    return asking(path, model="gpt-5", stream=stream, **body)


def events(response: DialectResponse) -> list[Event]:
    said = [parse_event(message) for message in response.messages]
    each = [json.loads(item.data or b"") for item in said]
    assert [item.encode_event for item in said] == [item["type"] for item in each]
    return each


def told(turn: Turn, request: Request | None = None) -> list[Event]:
    return events(DIALECT.encode(request or asked(), (turn,), DELIVERY))


def kinds(each: Sequence[Event]) -> list[str]:
    """The types of events; those that come again one after the other, once."""
    types = [str(item["type"]).removeprefix("response.") for item in each]
    return [it for at, it in enumerate(types) if at == 0 or types[at - 1] != it]


def document(turn: Turn, **body: Any) -> dict[str, Any]:
    response = DIALECT.encode(asked(stream=False, **body), (turn,), DELIVERY)
    said: dict[str, Any] = json.loads(response.messages[0])
    return said


def fitted(*parts: Part, finish: Finish | None = None, **body: Any) -> Turn:
    [turn] = DIALECT.convert(asked(**body), [Turn(parts, finish)], DELIVERY).turns
    return turn


def lost(*parts: Part) -> tuple[str, ...]:
    return DIALECT.convert(asked(), [Turn(parts)], DELIVERY).losses


BEGUN: Final = ["created", "in_progress"]
MESSAGE: Final = [
    "output_item.added", "content_part.added", "output_text.delta", "output_text.done",
    "content_part.done", "output_item.done",
]  # fmt: skip
CALL: Final = [
    "output_item.added", "function_call_arguments.delta", "function_call_arguments.done",
    "output_item.done",
]  # fmt: skip


def test_a_summary_and_a_text_are_told_as_openai_tells_them() -> None:
    each = told(Turn((Reasoning("Thinking."), Text("Hello")), Finish.STOP))

    summary = "reasoning_summary"
    assert kinds(each) == [
        *BEGUN,
        "output_item.added", f"{summary}_part.added", f"{summary}_text.delta",
        f"{summary}_text.done", f"{summary}_part.done", "output_item.done",
        *MESSAGE,
        "completed",
    ]  # fmt: skip
    assert [item["sequence_number"] for item in each] == list(range(len(each)))


FIELDS: Final = {
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
"""What OpenAI's events hold beside their type and number."""


def test_each_event_has_the_fields_of_openais() -> None:
    turn = Turn((Reasoning("Hm."), Text("a"), Refusal("b"), ToolCall("call_1", "f", "{}")))
    each = {item["type"]: item for item in told(turn)}

    assert {kind: set(each[kind]) - {"type", "sequence_number"} for kind in FIELDS} == {
        kind: set(fields.split()) for kind, fields in FIELDS.items()
    }
    assert each["response.output_text.delta"]["logprobs"] == []


def test_a_response_has_the_fields_of_openais_from_the_first_event_on() -> None:
    each = told(Turn((Text("a"),)))

    fields = set(
        """id object created_at status background completed_at error frequency_penalty
        incomplete_details instructions max_output_tokens max_tool_calls model output
        parallel_tool_calls presence_penalty previous_response_id prompt_cache_key
        prompt_cache_retention reasoning safety_identifier store temperature text tool_choice tools
        top_logprobs top_p truncation usage user metadata""".split()  # noqa: SIM905 # readable
    )
    first, last = each[0]["response"], each[-1]["response"]
    assert set(first) == set(last) == fields
    assert (first["status"], first["output"], first["usage"]) == ("in_progress", [], None)
    assert (last["status"], len(last["output"])) == ("completed", 1)


def test_a_response_repeats_what_it_was_asked_for() -> None:
    asked_for: dict[str, Any] = {
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "f", "parameters": {}}],
        "tool_choice": "required",
        "temperature": 0.5,
        "metadata": {"run": "7"},
        "store": False,
        "previous_response_id": "resp_0",
    }
    said = document(Turn((Text("a"),)), reasoning={"effort": "low"}, **asked_for)

    assert {name: said[name] for name in asked_for} == asked_for
    assert said["reasoning"] == {"effort": "low", "summary": None}
    assert dict(fitted(Text("a"), **asked_for).metadata) == {"previous_response_id": "resp_0"}


def test_calls_are_told_one_after_the_other() -> None:
    calls = (ToolCall("call_a", "f", '{"a":1}'), ToolCall("call_b", "f", '{"b":2}'))
    each = told(Turn(calls))

    assert kinds(each) == [*BEGUN, *CALL, *CALL, "completed"]
    done = [item["item"] for item in each if item["type"] == "response.output_item.done"]
    assert each[-1]["response"]["output"] == done
    assert [item["call_id"] for item in done] == ["call_a", "call_b"]


def test_an_item_is_the_same_one_from_its_first_event_to_the_last_of_all() -> None:
    each = told(Turn((Text("a"), ToolCall("", "f", ""), ToolCall("", "f", ""), Text("b"))))

    added, done = (
        [item["item"] for item in each if item["type"] == f"response.output_item.{step}"]
        for step in ("added", "done")
    )
    identity = [(item["id"], item["type"], item.get("call_id")) for item in added]
    assert identity == [(item["id"], item["type"], item.get("call_id")) for item in done]
    assert len({item["id"] for item in added}) == 4
    assert {item["status"] for item in added} == {"in_progress"}
    assert {item["item_id"] for item in each if "item_id" in item} == {item["id"] for item in added}
    assert added[0]["content"] == []
    assert added[1]["arguments"] == ""


def test_parts_with_one_id_are_one_message_and_others_are_not() -> None:
    one, other = (("id", "msg_1"),), (("id", "msg_2"),)
    parts = (Text("a", metadata=one), Refusal("b", metadata=one), Text("c", metadata=other))

    assert [len(item["content"]) for item in document(Turn(parts))["output"]] == [2, 1]


def test_an_id_that_comes_again_is_made_anew() -> None:
    one: Metadata = (("id", "msg_1"),)
    parts = fitted(Text("a", metadata=one), Reasoning("b"), Text("c", metadata=one)).parts

    ids = [dict(part.metadata)["id"] for part in parts]
    assert ids[0] == "msg_1"
    assert len(set(ids)) == 3


def test_logprobs_come_with_the_tokens_that_they_are_of() -> None:
    likely: list[Json] = [{"token": "He", "logprob": -0.1}, {"token": "llo", "logprob": -0.2}]
    each = told(Turn((Text("Hello", metadata=(("logprobs", likely),)),)))

    deltas = [item for item in each if item["type"] == "response.output_text.delta"]
    assert [(delta["delta"], delta["logprobs"]) for delta in deltas] == [
        ("He", likely[:1]),
        ("llo", likely[1:]),
    ]
    [done] = [item for item in each if item["type"] == "response.output_text.done"]
    assert done["logprobs"] == likely


def test_citations_follow_the_text_and_name_pages_and_files() -> None:
    page = Citation("https://a.b", "A", span=(0, 2))
    file = Citation(
        "", "a.pdf", metadata=(("type", "file_citation"), ("file_id", "f"), ("index", 0))
    )
    each = told(Turn((Text("Hi", (page, file)),)))

    cited = [item for item in each if item["type"] == "response.output_text.annotation.added"]
    assert [item["annotation_index"] for item in cited] == [0, 1]
    assert [item["annotation"] for item in cited] == [
        {"type": "url_citation", "start_index": 0, "end_index": 2, "url": "https://a.b",
         "title": "A"},
        {"type": "file_citation", "file_id": "f", "index": 0, "filename": "a.pdf"},
    ]  # fmt: skip


def call(kind: str, arguments: str, *beside: tuple[str, Any]) -> ToolCall:
    return ToolCall("x_1", kind.removesuffix("_call"), arguments, (("type", kind), *beside))


FAILED: Final = ToolResult(
    "x_1", '{"type":"http_error","code":500,"message":"no"}', "mcp", failed=True
)
SEARCHED: Final = ["output_item.added", "K.in_progress", "K.searching", "K.completed"]

TOOLS: Final = {
    "web_search_call": ((call("web_search_call", '{"type":"search","query":"a"}'),), SEARCHED),
    "file_search_call": ((call("file_search_call", '{"queries":["a"]}'),), SEARCHED),
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
        (call("mcp_call", '{"a":1}', ("server_label", "s")), FAILED),
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


@pytest.mark.parametrize("name", TOOLS)
def test_the_tools_of_openai_are_told_as_openai_tells_them(name: str) -> None:
    parts, expected = TOOLS[name]
    kind = name.partition(" ")[0]
    each = told(Turn(parts))

    steps = [entry.replace("K", kind, 1) if entry.startswith("K") else entry for entry in expected]
    assert kinds(each) == [*BEGUN, *steps, "output_item.done", "completed"]
    assert [type(part) for part in fitted(*parts).parts] == [type(part) for part in parts]
    assert lost(*parts) == ()
    [item] = each[-1]["response"]["output"]
    assert item["type"] == kind


def test_images_in_the_making_are_told_as_many_as_were_asked_for() -> None:
    tools = [{"type": "image_generation", "partial_images": 2}]
    each = told(Turn((Media("image/png", base64="aGk="),)), asked(tools=tools))

    making = [item for item in each if item["type"].endswith(".partial_image")]
    assert [item["partial_image_index"] for item in making] == [0, 1]
    assert {item["partial_image_b64"] for item in making} == {"aGk="}


def test_a_tool_that_its_provider_ran_is_that_of_a_server_and_waits_for_nobody() -> None:
    ran = ToolCall("srv_1", "search", '{"q":"a"}')
    turn = fitted(ran, ToolResult("srv_1", "found", "search"), Text("Yes."), finish=Finish.STOP)

    [item, _] = document(turn)["output"]
    assert (item["type"], item["name"], item["arguments"], item["output"]) == (
        "mcp_call", "search", '{"q":"a"}', "found",
    )  # fmt: skip
    assert turn.finish is Finish.STOP


def test_results_stand_with_their_calls_and_that_they_moved_is_said() -> None:
    calls = (ToolCall("a", "f", "{}"), ToolCall("b", "g", "{}"))
    results = (ToolResult("a", "1"), ToolResult("b", "2"))

    told_so = fitted(*calls, *results).parts
    assert [item.call_id if isinstance(item, ToolResult) else "" for item in told_so] == [
        "",
        "a",
        "",
        "b",
    ]
    assert "the order of parts" in lost(*calls, *results)


def test_a_call_of_a_function_waits_and_one_of_the_providers_does_not() -> None:
    search = call("web_search_call", '{"type":"search"}')

    assert fitted(ToolCall("a", "f", "{}")).finish is Finish.TOOL_CALLS
    assert fitted(search).finish is Finish.STOP
    assert fitted(search, ToolCall("a", "f", "{}")).finish is Finish.TOOL_CALLS


def test_what_stands_in_several_items_is_sealed_item_by_item() -> None:
    parts = (
        Reasoning("a", redacted="s1", metadata=(("id", "rs_1"), ("type", "summary_text"))),
        Reasoning("b", metadata=(("id", "rs_2"), ("type", "summary_text"))),
        Reasoning("c", redacted="s2", metadata=(("id", "rs_2"), ("type", "reasoning_text"))),
        Reasoning(metadata=(("id", "rs_3"),)),
    )
    assert fitted(*parts).parts == parts
    assert [
        (len(item["summary"]), len(item.get("content", ())), item.get("encrypted_content"))
        for item in document(Turn(parts))["output"]
    ] == [(1, 0, "s1"), (1, 1, "s2"), (0, 0, None)]


def test_models_in_the_open_tell_their_thoughts_and_others_summaries() -> None:
    spoken = [
        json.loads(DIALECT.encode(asked(stream=False), [Turn((Reasoning("a"),))], item).messages[0])
        for item in (DELIVERY, replace(DELIVERY, provider="vllm"))
    ]
    assert [list(filter(item["output"][0].get, ("summary", "content"))) for item in spoken] == [
        ["summary"],
        ["content"],
    ]


@pytest.mark.parametrize(
    ("finish", "raw", "status", "reason"),
    [
        (Finish.STOP, "", "completed", None),
        (Finish.LENGTH, "", "incomplete", {"reason": "max_output_tokens"}),
        (Finish.CONTENT_FILTER, "", "incomplete", {"reason": "content_filter"}),
        (Finish.REFUSAL, "", "incomplete", {"reason": "content_filter"}),
        (Finish.ERROR, "", "failed", None),
        (Finish.OTHER, "cancelled", "cancelled", None),
        (Finish.OTHER, "incomplete", "incomplete", None),
        (Finish.OTHER, "tired", "incomplete", {"reason": "tired"}),
        (Finish.OTHER, "queued", "incomplete", {"reason": "queued"}),
        (Finish.PAUSED, "", "completed", None),
        (Finish.TOOL_CALLS, "", "completed", None),
    ],
)
def test_why_a_stream_ends_is_told_by_its_last_event(
    finish: Finish, raw: str, status: str, reason: object
) -> None:
    last = told(Turn((Text("a"),), finish, raw))[-1]

    assert last["type"] == f"response.{status}"
    assert last["response"]["status"] == status
    assert last["response"]["incomplete_details"] == reason


def test_who_refuses_in_words_completes() -> None:
    assert fitted(Refusal("No."), finish=Finish.REFUSAL).finish_raw == "completed"


def test_the_last_item_of_what_is_incomplete_is_incomplete() -> None:
    said = document(Turn((Text("a"), ToolCall("c", "f", "{}"), Text("b")), Finish.LENGTH))

    assert [item["status"] for item in said["output"]] == ["completed", "completed", "incomplete"]


def test_what_goes_on_in_the_background_has_not_ended() -> None:
    request = asked(stream=False, background=True)
    response = DIALECT.encode(request, [Turn((), Finish.PAUSED)], DELIVERY)

    assert json.loads(response.messages[0])["status"] == "in_progress"
    assert kinds(told(Turn(()), asked(background=True))) == [
        "created", "queued", "in_progress", "completed",
    ]  # fmt: skip


def test_an_error_amid_a_stream_leaves_the_last_item_open_and_is_said_twice() -> None:
    turn = Turn((Text("a"), ToolCall("c", "f", "{}")), failure=Failure("Oh no", "t", "c"))
    each = told(turn)

    assert kinds(each) == [
        *BEGUN, *MESSAGE, *CALL[:2], "error", "failed",
    ]  # fmt: skip
    assert each[-2]["error"] == {"message": "Oh no", "type": "t", "param": None, "code": "c"}
    assert each[-1]["response"]["error"] == {"code": "c", "message": "Oh no"}
    assert each[-1]["response"]["output"][-1]["status"] == "incomplete"


def test_an_error_has_a_type_and_a_code_in_words() -> None:
    error = told(Turn((), failure=Failure("Oh no", "error")))[-2]["error"]

    assert (error["type"], error["code"]) == ("server_error", "server_error")


def test_a_stream_that_is_fetched_goes_on_after_the_event_that_is_named() -> None:
    turn = Turn((Text("Hello"),), id="resp_other")
    whole, rest = (
        events(DIALECT.encode(item, [turn], DELIVERY))
        for item in (
            Request("GET", f"{PATH}/resp_1", "stream=true", (), b""),
            Request("GET", f"{PATH}/resp_1", "stream=true&starting_after=4", (), b""),
        )
    )
    assert rest == whole[5:]
    assert whole[0]["response"]["id"] == "resp_1"


def test_a_conversation_that_is_made_shorter_is_no_response() -> None:
    sealed = Reasoning(redacted="s", metadata=(("type", "compaction"),))
    response = DIALECT.encode(asked(path=f"{PATH}/compact"), [Turn((sealed,))], DELIVERY)

    said = json.loads(response.messages[0])
    assert said["object"] == "response.compaction"
    assert [(item["type"], item["encrypted_content"]) for item in said["output"]] == [
        ("compaction", "s")
    ]


def test_sound_is_told_by_streams_alone_and_once() -> None:
    sound = Media("audio/wav", base64="aGk=", transcript="Hi")
    each = told(Turn((sound, Text("a"))))

    assert kinds(each)[-5:-1] == [
        "audio.delta", "audio.done", "audio.transcript.delta", "audio.transcript.done",
    ]  # fmt: skip
    with pytest.raises(NotRepresentable, match="one sound"):
        told(Turn((sound, sound)))
    with pytest.raises(NotRepresentable, match="media"):
        document(Turn((sound,)))


def test_an_image_by_its_address_has_no_word() -> None:
    with pytest.raises(NotRepresentable, match="media"):
        told(Turn((Media("image/png", url="https://a.b/c.png"),)))


def _shown(parts: Sequence[Part]) -> list[tuple[str, str]]:
    """What deltas bring, part by part."""
    return [
        (type(part).__name__, part.arguments if isinstance(part, ToolCall) else part.text)
        for part in parts
        if isinstance(part, Text | Refusal | Reasoning | ToolCall)
        if isinstance(part, ToolCall) or part.text
    ]


@given(TALKS)
@settings(max_examples=60)
def test_the_deltas_say_what_the_end_says(turn: Turn) -> None:
    response = DIALECT.encode(asked(), [replace(turn, failure=None)], DELIVERY)
    growing = [message for message in response.messages[:-1] if b".done\n" not in message]

    [read] = DIALECT.decode(response)
    [grown] = DIALECT.decode(replace(response, messages=growing)) or (Turn(()),)
    assert _shown(grown.parts) == _shown(read.parts)


IDS = st.integers(0, 10**6).map(str)
WORDS = st.text(max_size=20)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b"]), WORDS | st.integers(0, 9), min_size=1)
ANNOTATIONS = st.lists(
    st.fixed_dictionaries(
        {"type": st.just("url_citation"), "url": WORDS, "title": WORDS,
         "start_index": st.integers(0, 9), "end_index": st.integers(0, 9)}
    )
    | st.fixed_dictionaries(
        {"type": st.just("file_citation"), "file_id": IDS, "filename": WORDS,
         "index": st.integers(0, 9)}
    ),
    max_size=2,
)  # fmt: skip
BLOCKS = st.fixed_dictionaries(
    {"type": st.just("output_text"), "text": WORDS, "annotations": ANNOTATIONS,
     "logprobs": st.just([])}
) | st.fixed_dictionaries({"type": st.just("refusal"), "refusal": WORDS})  # fmt: skip
STATUSES = st.sampled_from(["completed", "in_progress", "incomplete"])


def _thoughts(kind: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    return st.lists(st.fixed_dictionaries({"type": st.just(kind), "text": WORDS}), max_size=2)


def _item(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"type": st.just(kind), **fields})


ITEMS = st.one_of(
    _item("message", status=STATUSES, content=st.lists(BLOCKS, max_size=3), phase=WORDS),
    _item(
        "reasoning",
        summary=_thoughts("summary_text"),
        content=_thoughts("reasoning_text"),
        encrypted_content=st.none() | IDS,
    ),
    _item("compaction", encrypted_content=IDS),
    _item("function_call", status=STATUSES, call_id=IDS, name=IDS, arguments=IDS),
    _item("custom_tool_call", status=STATUSES, call_id=IDS, name=IDS, input=IDS),
    _item("web_search_call", status=STATUSES, action=OBJECTS),
    _item("file_search_call", queries=st.lists(IDS), results=st.none() | st.lists(OBJECTS)),
    _item("code_interpreter_call", code=WORDS, outputs=st.lists(OBJECTS), container_id=IDS),
    _item("image_generation_call", result=st.none() | IDS, prompt=WORDS, size=IDS),
    _item(
        "mcp_call",
        status=st.sampled_from(["completed", "failed"]),
        name=IDS,
        arguments=IDS,
        output=st.none() | WORDS,
        error=st.none() | OBJECTS | WORDS,
        server_label=IDS,
    ),
    _item("mcp_list_tools", server_label=IDS, tools=st.lists(OBJECTS)),
    _item("mcp_approval_request", server_label=IDS, name=IDS, arguments=IDS),
    _item("shell_call", call_id=IDS, action=OBJECTS, status=STATUSES, environment=OBJECTS),
    _item("shell_call_output", call_id=IDS, output=st.lists(OBJECTS), status=STATUSES),
    _item("apply_patch_call", call_id=IDS, operation=OBJECTS),
    _item("program", call_id=IDS, code=WORDS, fingerprint=IDS),
    _item("program_output", call_id=IDS, result=WORDS),
    _item("tool_search_call", call_id=st.none() | IDS, arguments=OBJECTS, execution=IDS),
    _item("tool_search_output", call_id=st.none(), tools=st.lists(OBJECTS)),
    _item("tomorrow_call", call_id=IDS, status=STATUSES, arguments=IDS, novelty=OBJECTS),
)


@given(st.lists(ITEMS, max_size=5), st.booleans())
@settings(max_examples=200)
def test_what_any_items_say_is_told_by_items_again(
    items: list[dict[str, Any]],
    streams: bool,
) -> None:
    numbered = [{"id": f"item_{at}", **it} for at, it in enumerate(items)]
    turn = Turn(tuple(part for item in numbered for part in output_item_decoder.decode_item(item)))
    request = asked(stream=streams)
    fits = DIALECT.convert(request, [turn], DELIVERY)

    assert DIALECT.decode(DIALECT.encode(request, [turn], DELIVERY)) == fits.turns
    again = DIALECT.convert(request, fits.turns, DELIVERY)
    assert (again.turns, again.losses) == (fits.turns, ())
    assert not [loss for loss in fits.losses if loss != "the order of parts"]


_TYPES: Final = st.sampled_from(
    """mcp_call web_search_call custom_tool_call image_generation_call program tomorrow_call
    function_call function_call_output x_output compaction summary_text reasoning_text
    file_citation failed incomplete a""".split()  # noqa: SIM905 # readable
)
_NAMES: Final = st.sampled_from(
    """id status type error phase caller size call_id output summary content role
    encrypted_content""".split()  # noqa: SIM905 # readable
)
_BESIDE: Final = st.dictionaries(_NAMES, _TYPES | OBJECTS, max_size=4).map(
    lambda it: tuple(it.items())
)
_CALL_IDS: Final = st.sampled_from(["", "a", "b"])
HOSTILE: Final = st.lists(
    st.builds(Text, WORDS, metadata=_BESIDE)
    | st.builds(Refusal, WORDS, _BESIDE)
    | st.builds(Reasoning, WORDS, redacted=st.none() | IDS, metadata=_BESIDE)
    | st.builds(ToolCall, _CALL_IDS, IDS, IDS | OBJECTS.map(json.dumps), _BESIDE)
    | st.builds(ToolResult, _CALL_IDS, WORDS, IDS, st.booleans(), _BESIDE)
    | st.builds(Media, st.just("image/png"), base64=IDS, metadata=_BESIDE),
    max_size=5,
)


@given(HOSTILE, st.sampled_from([None, *Finish]), st.booleans())
@settings(max_examples=200)
def test_what_stands_beside_parts_never_makes_them_read_otherwise(
    parts: list[Part], finish: Finish | None, streams: bool
) -> None:
    turn = Turn(tuple(parts), finish)
    request = asked(stream=streams)
    fits = DIALECT.convert(request, [turn], DELIVERY)

    assert DIALECT.decode(DIALECT.encode(request, [turn], DELIVERY)) == fits.turns
    again = DIALECT.convert(request, fits.turns, DELIVERY)
    assert (again.turns, again.losses) == (fits.turns, ())


def _client(response: DialectResponse) -> openai.OpenAI:
    def answer(_: httpx2.Request) -> httpx2.Response:
        body = b"".join(response.messages)
        return httpx2.Response(response.head.status, headers=[*response.head.headers], content=body)

    return openai.OpenAI(
        api_key="none",
        base_url="http://127.0.0.1/v1",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(answer)),
    )


TELLABLE: Final = [case_ for case_ in CASES if case_.turn.failure is None]


def _heard(output: Sequence[Any], usage: Any) -> dict[str, Any]:
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


def _meant(turn: Turn) -> dict[str, Any]:
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


@pytest.mark.parametrize("case", TELLABLE, ids=lambda it: it.name)
def test_the_sdk_hears_a_document_as_it_was_told(case: Case) -> None:
    response = DIALECT.encode(asked(stream=False), [case.turn], DELIVERY)
    with _client(response) as client:
        heard = client.responses.create(model="gpt-5", input="")

    [turn] = DIALECT.decode(response)
    assert _heard(heard.output, heard.usage) == _meant(turn)
    assert heard.output_text == turn.text


@pytest.mark.parametrize("case", TELLABLE, ids=lambda it: it.name)
def test_the_sdk_puts_a_stream_together_as_it_was_told(case: Case) -> None:
    response = DIALECT.encode(asked(), [case.turn], DELIVERY)
    [turn] = DIALECT.decode(response)
    with _client(response) as client:
        if turn.finish is Finish.LENGTH:  # its helper wants a response that completed
            last: Any = list(client.responses.create(model="gpt-5", input="", stream=True))[-1]
            heard = last.response
        else:
            with client.responses.stream(model="gpt-5", input="") as stream:
                heard = stream.get_final_response()

    assert _heard(heard.output, heard.usage) == _meant(turn)


@pytest.mark.parametrize("name", sorted(TOOLS.keys() - {"tomorrow_call"}))
def test_the_sdk_takes_the_tools_of_openai_for_what_they_are(name: str) -> None:
    response = DIALECT.encode(asked(), [Turn(TOOLS[name][0])], DELIVERY)
    with _client(response) as client, client.responses.stream(model="m", input="") as stream:
        [item] = stream.get_final_response().output

    assert item.type == name.partition(" ")[0]


def test_the_sdk_raises_the_error_amid_a_stream() -> None:
    turn = Turn((Text("Hel"),), failure=Failure("Oh no", "overloaded", "server_error"))
    with _client(DIALECT.encode(asked(), [turn], DELIVERY)) as client:
        stream = client.responses.create(model="gpt-5", input="", stream=True)
        with pytest.raises(openai.APIError, match="Oh no") as raised:
            list(stream)
    assert (raised.value.type, raised.value.code) == ("overloaded", "server_error")


QUOTA: Final = AccountLimits(RateLimitWindow(60, 59, 0.5), RateLimitWindow(1000, 900, 63))


@pytest.mark.parametrize(
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
    delivery = EncodeContext("test", 1, quota=QUOTA)
    response = DIALECT.error_response(status, Failure("Oh no"), delivery, retry_after=1.5)
    with _client(response) as client, pytest.raises(raised, match="Oh no") as error:
        client.responses.create(model="gpt-5", input="")

    assert error.value.code == code
    assert error.value.request_id == header_value(response.head.headers, "x-request-id")
    headers = dict(response.head.headers)
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("2", "1500")
    assert headers["x-ratelimit-remaining-tokens"] == "900"


def test_an_error_in_place_of_a_document_has_its_status() -> None:
    turn = Turn((Text("a"),), failure=Failure("slow down", code="rate_limit_exceeded"))
    response = DIALECT.encode(asked(stream=False), [turn], DELIVERY)

    assert response.head.status == 429


NOT_KEPT: Final = [
    ("GET", f"{PATH}/resp_1"),
    ("DELETE", f"{PATH}/resp_1"),
    ("POST", f"{PATH}/resp_1/cancel"),
    ("GET", f"{PATH}/resp_1/input_items"),
]


@pytest.mark.parametrize(("method", "path"), NOT_KEPT)
def test_what_was_not_kept_is_not_found(method: str, path: str) -> None:
    request = Request(method, path, "", (), b"")
    response = DIALECT.auxiliary_response(request, DELIVERY)

    assert DIALECT.matches(request)
    assert response is not None
    assert response.head.status == 404
    with _client(response) as client, pytest.raises(openai.NotFoundError, match="'resp_1' not"):
        client.responses.retrieve("resp_1")


@pytest.mark.parametrize("path", [PATH, f"{PATH}/compact", "/openai/responses"])
def test_what_asks_for_a_turn_has_no_other_answer(path: str) -> None:
    assert DIALECT.auxiliary_response(asked(path=path), DELIVERY) is None


def test_tokens_are_counted_a_quarter_of_the_words() -> None:
    message = {"role": "user", "content": [{"type": "input_text", "text": "x" * 10}]}
    request = asked(path=f"{PATH}/input_tokens", input=[message], instructions="y" * 7)
    response = DIALECT.auxiliary_response(request, DELIVERY)

    assert response is not None
    with _client(response) as client:
        assert client.responses.input_tokens.count(model="gpt-5", input="").input_tokens == 5


def test_what_says_that_a_response_is_deleted_is_no_turn() -> None:
    body = b'{"id":"resp_1","object":"response","deleted":true}'
    head = ResponseHead(200, "OK", (("Content-Type", "application/json"),), "length", len(body))

    assert DIALECT.decode(DialectResponse(head, "whole", (body,))) == ()


needs_corpus = pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)

LOST: Final = {
    # A server on Bedrock put fields of an event into the item that the event is about.
    "e965a3a827b833e1": ("metadata item_id of a tool call", "metadata output_index of a tool call"),
}
RENAMED: Final = {"afdd2d375d41f9d5": 1}
"""How many parts of a row get another id: xAI gave one to two items."""


def _recorded() -> Iterator[tuple[corpus.Row, DialectResponse]]:
    for row in corpus.rows():
        if not row.wire.startswith("openai.responses.") or row.status != 200:
            continue
        name = DIALECT.codec(row.request, row.head)
        if row.fidelity == "payload-lines":
            lines = [
                b"data: " + splitline + b"\n\n"
                for splitline in row.body.splitlines()
                if splitline.strip()
            ]
            yield row, DialectResponse(row.head, "sse", lines)
        else:
            yield row, DialectResponse(row.head, name, framing.split_messages(name, row.body))


def _sorted(part: Part) -> Part:
    return replace(part, metadata=tuple(sorted(dict(part.metadata).items(), key=str)))


@pytest.mark.corpus
@needs_corpus
def test_every_real_answer_is_told_again_as_it_was_told() -> None:
    missing, renamed, count = {}, {}, 0
    for row, answer in _recorded():
        [turn] = DIALECT.decode(answer)
        request = DIALECT.sample_request(turn.model, stream=answer.codec == "sse")
        fits = DIALECT.convert(request, [turn], DELIVERY)
        [again] = DIALECT.decode(DIALECT.encode(request, [turn], DELIVERY))

        assert (again,) == fits.turns, row.id
        assert (again.finish_raw, again.id, again.model) == (turn.finish_raw, turn.id, turn.model)
        assert dict(again.metadata) == dict(turn.metadata), row.id
        pairs = list(zip(turn.parts, again.parts, strict=True))
        others = [theirs for theirs, ours in pairs if _sorted(theirs) != _sorted(ours)]
        if fits.losses:
            missing[row.id] = fits.losses
        elif others:
            renamed[row.id] = len(others)
        count += 1
    assert (count, missing, renamed) == (207, LOST, RENAMED)
