from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import httpx2
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from case_tables import each_row
from dialect_manners import COMMON_TURNS, ENCODE_CONTEXT, json_request
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.openai import output_items
from llm_proxy.dialects.openai.responses import OpenAIResponses
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Request, ResponseHead
from llm_proxy.framing.sse import parse_event
from llm_proxy.turns import (
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
)
from test_dialects_openai_item import ITEMS
from thoroughness import quick_or_thorough

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


def document(turn: Turn) -> dict[str, Any]:
    response = DIALECT.encode_response(responses_request(stream=False), (turn,), ENCODE_CONTEXT)
    response_document: dict[str, Any] = json.loads(response.framed_messages[0])
    return response_document


def convert_parts(*parts: Part, finish: FinishReason | None = None) -> Turn:
    [turn] = DIALECT.representable_turns(
        responses_request(), [Turn(parts, finish)], ENCODE_CONTEXT
    ).turns
    return turn


def losses(*parts: Part) -> tuple[str, ...]:
    return DIALECT.representable_turns(responses_request(), [Turn(parts)], ENCODE_CONTEXT).losses


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
    assert {item["item_id"] for item in stream_events if "item_id" in item} == {
        item["id"] for item in added
    }


def test_parts_with_one_id_are_one_message_and_others_are_not() -> None:
    first_id, second_id = (("id", "msg_1"),), (("id", "msg_2"),)
    parts = (Text("a", (), first_id), Refusal("b", first_id), Text("c", (), second_id))

    assert [len(item["content"]) for item in document(Turn(parts))["output"]] == [2, 1]


def test_a_repeated_id_is_replaced() -> None:
    first_id: Metadata = (("id", "msg_1"),)
    parts = convert_parts(Text("a", (), first_id), Reasoning("b"), Text("c", (), first_id)).parts

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


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # unknown items and statuses
@each_row(("item", "parts", "steps"), ITEMS.values(), ids=ITEMS)
def test_items_are_encoded_without_loss_and_the_sdk_takes_them_for_what_they_are(
    item: dict[str, Any], parts: tuple[Part, ...], steps: str
) -> None:
    converted = DIALECT.representable_turns(responses_request(), [Turn(parts)], ENCODE_CONTEXT)
    assert (converted.turns[0].parts, converted.losses) == (parts, ())

    response = DIALECT.encode_response(responses_request(), [Turn(parts)], ENCODE_CONTEXT)
    with _client(response) as client, client.responses.stream(model="m", input="") as stream:
        output: Any = stream.get_final_response().output
    assert [(output_item.type, output_item.id) for output_item in output] == [
        (item["type"], item["id"])
    ]


def test_as_many_partial_images_are_sent_as_requested() -> None:
    tools = [{"type": "image_generation", "partial_images": 2}]
    stream_events = encode_events(
        Turn((Media("image/png", base64="aGk="),)), responses_request(tools=tools)
    )

    partial_images = [item for item in stream_events if item["type"].endswith(".partial_image")]
    assert [item["partial_image_index"] for item in partial_images] == [0, 1]
    assert {item["partial_image_b64"] for item in partial_images} == {"aGk="}


def test_a_provider_tool_becomes_an_mcp_call_and_the_turn_does_not_wait() -> None:
    parts = (ToolCall("srv_1", "search", '{"q":"a"}'), ToolResult("srv_1", "found", "search"))
    turn = convert_parts(*parts, Text("Yes."), finish=FinishReason.STOP)

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
    search = ToolCall("x_1", "web_search", '{"type":"search"}', (("type", "web_search_call"),))

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
    request = responses_request(stream=False)
    for context, name in (
        (ENCODE_CONTEXT, "summary"),
        (replace(ENCODE_CONTEXT, provider="vllm"), "content"),
    ):
        response = DIALECT.encode_response(request, [Turn((Reasoning("a"),))], context)
        [item] = json.loads(response.body)["output"]
        assert list(filter(item.get, ("summary", "content"))) == [name]


@each_row(
    ("finish", "raw", "status", "reason"),
    [
        (FinishReason.REFUSAL, "", "incomplete", {"reason": "content_filter"}),
        (FinishReason.OTHER, "queued", "incomplete", {"reason": "queued"}),
        (FinishReason.PAUSED, "", "completed", None),
        (FinishReason.TOOL_CALLS, "", "completed", None),
    ],
)
def test_finish_values_without_a_status_of_their_own_become_others(
    finish: FinishReason, raw: str, status: str, reason: object
) -> None:
    last = encode_events(Turn((Text("a"),), finish, raw))[-1]["response"]

    assert (last["status"], last["incomplete_details"]) == (status, reason)


def test_a_refusal_has_the_status_completed() -> None:
    assert convert_parts(Refusal("No."), finish=FinishReason.REFUSAL).finish_raw == "completed"


def test_the_last_item_of_what_is_incomplete_is_incomplete() -> None:
    response_document = document(
        Turn((Text("a"), ToolCall("c", "f", "{}"), Text("b")), FinishReason.LENGTH)
    )

    statuses = [item["status"] for item in response_document["output"]]
    assert statuses == ["completed", "completed", "incomplete"]


def test_a_background_response_is_in_progress() -> None:
    request = responses_request(stream=False, background=True)
    response = DIALECT.encode_response(request, [Turn((), FinishReason.PAUSED)], ENCODE_CONTEXT)

    assert json.loads(response.framed_messages[0])["status"] == "in_progress"
    stream_events = encode_events(Turn(()), responses_request(background=True))
    assert [(item["type"], item["response"]["status"]) for item in stream_events] == [
        ("response.created", "queued"), ("response.queued", "queued"),
        ("response.in_progress", "in_progress"), ("response.completed", "completed"),
    ]  # fmt: skip


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
    [item] = compaction_document["output"]
    assert (item["type"], item["encrypted_content"]) == ("compaction", "s")


def test_audio_in_a_document_two_sounds_and_the_url_of_an_image_are_refused() -> None:
    sound = Media("audio/wav", base64="aGk=", transcript="Hi")
    with pytest.raises(NotRepresentable, match="media"):
        document(Turn((sound,)))
    with pytest.raises(NotRepresentable, match="one audio output"):
        encode_events(Turn((sound, sound)))
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


ANY_ITEMS = st.one_of(
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


@given(st.lists(ANY_ITEMS, max_size=5), st.booleans())
@settings(max_examples=quick_or_thorough(40, 200))
def test_any_items_round_trip(items: list[dict[str, Any]], streams: bool) -> None:
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


def test_the_sdk_raises_the_error_amid_a_stream() -> None:
    turn = Turn((Text("Hel"),), failure=Failure("Oh no", "overloaded", "server_error"))
    with _client(DIALECT.encode_response(responses_request(), [turn], ENCODE_CONTEXT)) as client:
        stream = client.responses.create(model="gpt-5", input="", stream=True)
        with pytest.raises(openai.APIError, match="Oh no") as raised:
            list(stream)
    assert (raised.value.type, raised.value.code) == ("overloaded", "server_error")


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
