"""`scenario from`: cassettes become an editable scenario that gives the same answers."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import corpus
from case_tables import each_row
from cli_process import run_command
from corpus import rows
from dialect_manners import DIALECTS_WITHOUT_CALLS, json_request
from llm_proxy import dialects, framing
from llm_proxy.cassette import Cassette
from llm_proxy.cassette.model import CassetteEnd, CassetteMeta, StoredRequest, sha256_hex
from llm_proxy.cassette_views import cassette_response_turns
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Ending, Read, Request, ResponseHead
from llm_proxy.scenario import scripting
from llm_proxy.scenario.choosing import MatchContext
from llm_proxy.scenario.documents import loading
from llm_proxy.scenario.documents.document import Scenario
from llm_proxy.scenario.recorded import (
    GeneratedScenario,
    generate_scenario,
    yaml_block,
)
from llm_proxy.turns import (
    Failure,
    FinishReason,
    Json,
    Media,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
)
from stored_cassettes import raw_chat_request, text_response, write_cassettes

CONTEXT: Final = EncodeContext("recorded", 1_700_000_000)
USER: Final[Json] = {"role": "user", "content": "Where is order 42? (a|b)"}
ASSISTANT: Final[Json] = {"role": "assistant", "tool_calls": []}
TOOL: Final[Json] = {"type": "function", "function": {"name": "lookup", "parameters": {}}}


def make_cassette(
    request: Request, response: DialectResponse, file: str = "one.jsonl", at: int = 0
) -> Cassette:
    """Build a cassette of a response; `at` is the second of its recording time."""
    dialect = dialects.dialect_of_request(request)
    body = b"".join(response.framed_messages)
    return Cassette(
        file,
        CassetteMeta(
            recording_tool="by hand",
            recorded_at=f"2026-01-01T00:00:{at:02}.000Z",
            dialect=dialect.name,
            provider="openai",
            model=dialect.model(request),
            session="default",
            key="0123456789abcdef" * 4,
            key_rules_version=1,
            redaction_rules_version=1,
        ),
        StoredRequest(request.method, request.path, request.query, request.headers, request.body),
        response.head,
        0.0,
        response.codec_name,
        "",
        tuple(response.framed_messages),
        (Read(1.0, body),),
        CassetteEnd(Ending.CLEAN, 1.0, len(body), sha256_hex(body)),
    )


def cassette_of_turns(
    request: Request, *turns: Turn, file: str = "one.jsonl", at: int = 0
) -> Cassette:
    """Build a cassette of a response with these turns."""
    response = dialects.chat_dialects()[dialects.dialect_of_request(request).name].encode_response(
        request, turns, CONTEXT
    )
    return make_cassette(request, response, file, at)


def cassette_of_error(
    request: Request, status: int, *headers: tuple[str, str], file: str = "no.jsonl", at: int = 0
) -> Cassette:
    """Build a cassette of an HTTP error."""
    dialect = dialects.chat_dialects()[dialects.dialect_of_request(request).name]
    response = dialect.error_response(status, Failure("Slow down"), CONTEXT)
    head = replace(response.head, headers=(*response.head.headers, *headers))
    return make_cassette(request, replace(response, head=head), file, at)


def chat_request(*messages: Json, **more: Any) -> Request:
    """Build a chat completion request."""
    all_messages = list(messages) or [USER]
    return json_request(
        "/v1/chat/completions", model="gpt-5", stream=True, messages=all_messages, **more
    )


def load_generated(generated: GeneratedScenario) -> Scenario:
    """Load the scenario from its generated document."""
    loading_result = loading.parse_scenario_file("made.yaml", generated.yaml_text.encode())
    unexpected_warnings = [
        warning for warning in loading_result.warnings if "is missing" not in warning.message
    ]
    assert (loading_result.mistakes, unexpected_warnings) == ((), [])
    [located] = loading_result.scenarios
    return located.value


def first_turn(generated: GeneratedScenario, cassette: Cassette) -> Turn:
    """Return the turn of the scenario's first step for the request of this cassette."""
    conversation = dialects.dialect_named(cassette.meta.dialect).decode_request(cassette.request)
    assert conversation is not None
    match_context = MatchContext(
        conversation, None, "m", "/", "openai", cassette.meta.dialect, "default", "seed"
    )
    return scripting.turn_from_scripted_response(
        load_generated(generated).turns[0].response, match_context
    )


def turn_content(turn: Turn) -> list[tuple[object, ...]]:
    """Return the content of a turn, without what only its provider can read."""
    content: list[tuple[object, ...]] = []
    for part in turn.parts:
        match part:
            case Text(text=text) | Refusal(text=text) if text:
                content.append((type(part), text))
            case Reasoning(text=text, signature=signature, redacted=redacted):
                content.append((text, signature or "", redacted or ""))
            case ToolCall(name=name, arguments=arguments):
                content.append((name, json.loads(arguments or "{}")))
            case _:
                pass
    return content


TURN: Final = Turn(
    (
        Reasoning("Let me see.", signature="c2VhbA=="),
        Text("I look.\n\n  - twice\n"),
        ToolCall("call_7", "lookup", '{"id": 42, "note": "1e3", "deep": [null, {"no": true}]}'),
    ),
    usage=Usage(10, 5, 15, cache_read=2),
)
CHAT_DIALECTS: Final = sorted(set(dialects.chat_dialects()) - DIALECTS_WITHOUT_CALLS)


@each_row("stream", [True, False], ids=["stream", "whole"])
@each_row("name", CHAT_DIALECTS)
def test_every_dialect_round_trips_a_turn(name: str, stream: bool) -> None:
    cassette = cassette_of_turns(
        dialects.chat_dialects()[name].sample_request("m", stream=stream), TURN
    )
    [recorded] = cassette_response_turns(cassette)

    generated = generate_scenario([cassette])

    replayed = first_turn(generated, cassette)
    assert turn_content(replayed) == turn_content(recorded)
    assert replayed.finish is recorded.finish
    assert recorded.usage is None or replayed.usage == replace(
        recorded.usage, total=(recorded.usage.input or 0) + (recorded.usage.output or 0)
    )


def test_a_conversation_becomes_a_document_that_people_edit() -> None:
    history: list[Json] = [{"role": "system", "content": "You help.\nBe brief."}, USER]
    result: Json = {"role": "tool", "tool_call_id": "call_7", "content": "{}"}
    usage_option = {"stream_options": {"include_usage": True}}
    first = cassette_of_turns(
        chat_request(*history, tools=[TOOL], temperature=0.2, top_p=1, **usage_option), TURN, at=1
    )
    last = cassette_of_turns(
        chat_request(*history, ASSISTANT, result),
        Turn((Text("In transit."),), FinishReason.LENGTH),
        file="two.jsonl",
        at=2,
    )

    generated = generate_scenario([last, first], expects_sampling=True)

    assert (
        generated.yaml_text
        == r"""# Generated by `llm-proxy scenario from`; edit as needed. Source:
#   one.jsonl
#   two.jsonl
id: openai-chat-gpt-5-01234567
description: Where is order 42? (a|b)
match:
  user: ^Where is order 42\? \(a\|b\)$
# Any system prompt is accepted. To require a text in the system prompt:
# system_prompt_must_include:
#   - You help.
turns:
  - turn: 1
    expected_tools:
      - lookup
    expected_temperature: 0.2
    expected_top_p: 1
    response:
      kind: tool-call
      reasoning:
        - text: Let me see.
      assistant_text: |
        I look.

          - twice
      tool_calls:
        - tool_name: lookup
          call_id: call_7
          arguments:
            id: 42
            note: '1e3'
            deep:
              - null
              - 'no': true
      usage:
        input: 10
        output: 5
        cache_read: 2
  - turn: 2
    response:
      kind: text
      assistant_text: In transit.
      finish_reason: length
"""
    )
    assert generated.omission_notes == ()
    assert [step.turn for step in load_generated(generated).turns] == [1, 2]


def test_only_the_tools_are_expected_unless_it_is_to_be_exact() -> None:
    generated = generate_scenario(
        [cassette_of_turns(chat_request(tools=[TOOL, TOOL], temperature=0.2, top_p=1), TURN)]
    )

    [step] = load_generated(generated).turns
    assert step.expected_tools == ("lookup",)
    assert (step.expected_temperature, step.expected_top_p) == (None, None)


NO_OBJECT: Final = "the arguments of lookup, which are not a valid JSON object"
CALL: Final = ToolCall("call-1", "lookup", "{}")


@each_row(
    ("turn", "response"),
    [
        (Turn((Text("Yes."),)), {"kind": "text", "assistant_text": "Yes."}),
        (Turn(()), {"kind": "text", "assistant_text": ""}),
        (
            Turn((Text("Yes."),), FinishReason.CONTENT_FILTER),
            {"kind": "text", "assistant_text": "Yes.", "finish_reason": "content_filter"},
        ),
        (
            Turn((CALL,)),
            {"kind": "tool-call", "tool_calls": [{"tool_name": "lookup", "arguments": {}}]},
        ),
        (
            Turn((Refusal("No."),)),
            {"kind": "parts", "parts": [{"part": "refusal", "text": "No."}]},
        ),
    ],
    ids=["text", "nothing", "finish", "call", "refusal"],
)
def test_an_answer_takes_the_simplest_response_kind(turn: Turn, response: Json) -> None:
    generated = generate_scenario([cassette_of_turns(chat_request(), turn)])

    steps: Any = generated.scenario["turns"]
    assert steps[0]["response"] == response


def test_parts_in_any_order_stay_in_it() -> None:
    request = dialects.chat_dialects()["anthropic"].sample_request("m", stream=True)
    parts = (
        Reasoning("Hm.", signature="s1"),
        Text("First."),
        Reasoning(redacted="s2"),
        Text("Then."),
        ToolCall("toolu_1", "lookup", '{"a":1}'),
        Text("Done."),
    )
    generated = generate_scenario([cassette_of_turns(request, Turn(parts))])

    steps: Any = generated.scenario["turns"]
    assert steps[0]["response"] == {
        "kind": "parts",
        "parts": [
            {
                "part": "reasoning",
                "text": "Hm.",
                "provider_metadata": {"anthropic": {"signature": "s1"}},
            },
            {"part": "text", "text": "First."},
            {"part": "reasoning", "provider_metadata": {"anthropic": {"redactedData": "s2"}}},
            {"part": "text", "text": "Then."},
            {
                "part": "tool-call",
                "tool_name": "lookup",
                "call_id": "toolu_1",
                "arguments": {"a": 1},
            },
            {"part": "text", "text": "Done."},
        ],
        "usage": {"input": 0, "output": 0},
    }


def test_texts_between_calls_stand_with_the_call_that_they_come_before() -> None:
    request = dialects.chat_dialects()["anthropic"].sample_request("m", stream=True)
    parts = (CALL, Text("And now."), ToolCall("toolu_2", "other", "{}"))

    steps: Any = generate_scenario([cassette_of_turns(request, Turn(parts))]).scenario["turns"]

    assert steps[0]["response"]["tool_calls"] == [
        {"tool_name": "lookup", "arguments": {}},
        {
            "assistant_text": "And now.",
            "tool_name": "other",
            "call_id": "toolu_2",
            "arguments": {},
        },
    ]


@each_row(
    ("parts", "note"),
    [
        (
            (Text("x"), Media("image/png", base64="aGk=")),
            "turn 1 omits: image/png",
        ),
        (
            (ToolCall("call_1", "lookup", '{"cut'),),
            f"turn 1 omits: {NO_OBJECT}",
        ),
        (
            (ToolCall("call_1", "lookup", '{"x": NaN}'),),
            f"turn 1 omits: {NO_OBJECT}",
        ),
    ],
    ids=["media", "arguments", "no number"],
)
def test_content_that_a_scenario_cannot_represent_is_noted(parts: Any, note: str) -> None:
    assert generate_scenario([cassette_of_turns(chat_request(), Turn(parts))]).omission_notes == (
        note,
    )


def test_what_the_provider_did_itself_is_left_out_and_noted() -> None:
    request = dialects.chat_dialects()["anthropic"].sample_request("m", stream=True)
    search = ToolCall("srvtoolu_1", "web_search", "{}", (("type", "server_tool_use"),))
    tool_result = ToolResult("srvtoolu_1", "[]", metadata=(("type", "web_search_tool_result"),))

    generated = generate_scenario(
        [cassette_of_turns(request, Turn((search, tool_result, Text("Found."))))]
    )

    expected = "the provider's built-in tool web_search; results of the provider's built-in tools"
    assert generated.omission_notes[0] == f"turn 1 omits: {expected}"


def test_of_several_choices_the_first_is_played() -> None:
    generated = generate_scenario(
        [cassette_of_turns(chat_request(n=2), Turn((Text("a"),)), Turn((Text("b"),)))]
    )

    steps: Any = generated.scenario["turns"]
    assert steps[0]["response"] == {"kind": "text", "assistant_text": "a"}
    assert generated.omission_notes == ("turn 1 omits: 1 of 2 choices",)


@each_row(
    ("failures", "expected_fields"),
    [
        (
            [cassette_of_error(chat_request(), 429, ("retry-after", "2"))],
            {"failure_status": "rate_limit", "failure_retry_after_ms": 2000},
        ),
        (
            [
                cassette_of_error(
                    chat_request(), 429, ("retry-after-ms", "1500"), ("retry-after", "2")
                )
            ],
            {"failure_status": "rate_limit", "failure_retry_after_ms": 1500},
        ),
        (
            [
                cassette_of_error(
                    chat_request(), 429, ("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")
                )
            ],
            {"failure_status": "rate_limit"},
        ),
        ([cassette_of_error(chat_request(), 500)], {"failure_status": "model_error"}),
        (
            [cassette_of_error(chat_request(), 503), cassette_of_error(chat_request(), 503)],
            {"failure_status": "model_error", "failure_error": {"status": 503}},
        ),
        (
            [cassette_of_error(chat_request(), 400)],
            {"failure_status": "model_error", "failure_retryable": False},
        ),
        (
            [cassette_of_error(chat_request(), 404)],
            {
                "failure_status": "model_error",
                "failure_retryable": False,
                "failure_error": {"status": 404},
            },
        ),
        (
            [cassette_of_error(chat_request(), 409)],
            {"failure_status": "model_error", "failure_error": {"status": 409}},
        ),
        (
            [cassette_of_turns(chat_request(), Turn((Text("I"),), failure=Failure("Slow down")))],
            {"failure_status": "model_error"},
        ),
    ],
    ids=["429", "ms", "date", "500", "503 twice", "400", "404", "409", "in the stream"],
)
def test_failures_before_an_answer_come_before_it_again(
    failures: Sequence[Cassette], expected_fields: dict[str, Json]
) -> None:
    generated = generate_scenario([*failures, cassette_of_turns(chat_request(), TURN, at=9)])

    steps: Any = generated.scenario["turns"]
    common_fields = {"failures_before_success": len(failures), "failure_message": "Slow down"}
    failure_fields = {name: value for name, value in steps[0].items() if name.startswith("failure")}
    assert failure_fields == common_fields | expected_fields
    assert generated.omission_notes == ()
    assert load_generated(generated).turns[0].failures_before_success == len(failures)


def test_failures_of_several_kinds_are_played_as_the_last() -> None:
    generated = generate_scenario(
        [
            cassette_of_error(chat_request(), 500),
            cassette_of_error(chat_request(), 429, at=1),
            cassette_of_turns(chat_request(), TURN, at=2),
        ]
    )

    [step] = load_generated(generated).turns
    assert (step.failures_before_success, step.failure_status) == (2, "rate_limit")
    assert generated.omission_notes == (
        "turn 1 failed in different ways; the scenario repeats the last failure 2 times",
    )


def test_of_two_answers_for_a_turn_the_first_is_played() -> None:
    first = cassette_of_turns(chat_request(), Turn((Text("first"),)), file="a.jsonl", at=1)
    second = cassette_of_turns(chat_request(), Turn((Text("second"),)), file="b.jsonl", at=2)
    later = cassette_of_error(chat_request(), 500, file="c.jsonl", at=3)

    generated = generate_scenario([later, second, first])

    assert turn_content(first_turn(generated, first)) == [(Text, "first")]
    assert generated.omission_notes == (
        "b.jsonl is omitted because it repeats turn 1",
        "c.jsonl is omitted because it repeats turn 1",
    )


def test_turns_that_are_not_there_are_noted() -> None:
    failure = cassette_of_error(chat_request(USER, ASSISTANT), 500, file="b.jsonl", at=1)
    last = cassette_of_turns(chat_request(USER, ASSISTANT, USER, ASSISTANT, USER, ASSISTANT), TURN)

    generated = generate_scenario([failure, last])

    assert [step.turn for step in load_generated(generated).turns] == [4]
    assert generated.omission_notes == (
        "turn 2 is omitted because every recorded attempt failed, such as b.jsonl",
        "no cassette was given for turn 1, 3",
    )


def test_an_answer_that_is_continued_by_its_id_is_the_turn_before() -> None:
    def turn(number: int, previous: str = "") -> Cassette:
        more = {"previous_response_id": previous} if previous else {}
        request = json_request(
            "/v1/responses", model="m", stream=True, input=f"text {number}", **more
        )
        answer = Turn((Text(f"answer {number}"),), id=f"resp_{number}")
        return cassette_of_turns(request, answer, file=f"{number}.jsonl", at=number)

    generated = generate_scenario([turn(1), turn(2, "resp_1"), turn(3, "resp_2")])

    scenario = load_generated(generated)
    assert [step.turn for step in scenario.turns] == [1, 2, 3]
    assert scenario.match is not None
    assert scenario.match.user == "^(?:text 1$|text 2$|text 3$)"
    with pytest.raises(
        NotRepresentable, match=r"3\.jsonl continues the response resp_2; add the cassette"
    ):
        generate_scenario([turn(1), turn(3, "resp_2")])


@each_row(
    ("text", "pattern"),
    [
        ("hi", "^hi$"),
        (r"a.b*c+d?(e)[f]{g}|h^i$j\k", r"^a\.b\*c\+d\?\(e\)\[f\]\{g\}\|h\^i\$j\\k$"),
        ("two\nlines", r"^two\nlines$"),
        ("x" * 201, "^" + "x" * 200),
    ],
)
def test_the_recorded_user_text_matches_the_scenario(text: str, pattern: str) -> None:
    generated = generate_scenario(
        [cassette_of_turns(chat_request({"role": "user", "content": text}), TURN)]
    )

    match = load_generated(generated).match
    assert match is not None
    assert match.user == pattern
    assert re.search(pattern, text)
    assert re.search(pattern, "before " + text) is None


def test_without_a_user_text_the_scenario_must_be_named() -> None:
    generated = generate_scenario(
        [cassette_of_turns(chat_request({"role": "system", "content": "Go."}), TURN)],
        "agent",
    )

    scenario = load_generated(generated)
    assert (scenario.id, scenario.match) == ("agent", None)
    assert scenario.description == "A recorded conversation."
    assert generated.omission_notes == (
        (
            "the recorded request contains no user text; select the scenario with the header "
            "x-llm-proxy-scenario"
        ),
    )


OTHER_REQUEST: Final = chat_request({"role": "user", "content": "Something else"})
TWO_CONVERSATIONS: Final = (
    "one.jsonl and b.jsonl belong to different conversations: their first user messages differ; "
    "create a separate scenario for each conversation"
)
PARTIAL: Final = (
    "the response in one.jsonl is partial: no [DONE], choice 0 unfinished; "
    "choose a cassette with a complete response"
)
TRUNCATED: Final = DialectResponse(
    ResponseHead(200, "OK", (("content-type", "text/event-stream"),), "chunked"),
    "sse",
    (b'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n',),
)


@each_row(
    ("cassettes", "reason"),
    [
        ([], "no cassettes given; pass at least one cassette"),
        (
            [make_cassette(Request("GET", "/v1/models", "", (), b""), TRUNCATED)],
            "one.jsonl does not contain a chat request; choose a cassette of a chat request",
        ),
        (
            [make_cassette(chat_request(), TRUNCATED)],
            PARTIAL,
        ),
        (
            [cassette_of_error(chat_request(), 500)],
            "no.jsonl contains an error response; add a cassette with a successful response",
        ),
        (
            [
                cassette_of_turns(chat_request(), TURN),
                cassette_of_turns(OTHER_REQUEST, TURN, file="b.jsonl"),
            ],
            TWO_CONVERSATIONS,
        ),
    ],
    ids=["nothing", "no turn", "partial", "failure", "two conversations"],
)
def test_cassettes_that_make_no_scenario_are_refused(
    cassettes: list[Cassette], reason: str
) -> None:
    with pytest.raises(NotRepresentable) as refusal:
        generate_scenario(cassettes)

    assert str(refusal.value) == reason


FINITE: Final = st.floats(allow_nan=False, allow_infinity=False)
NAMES: Final = st.text(max_size=5).filter(lambda text: text not in {"<<", "\0"})
"""A document cannot contain these two names."""
JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | FINITE | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner),
    max_leaves=8,
)
ODD: Final = st.sampled_from(
    ["no", "1e3", "0o17", "0x1F", "1_000", "2026-01-01", "12:30:00", ".inf", ".nan", "~", "<<",
     "=", "- a", "a: b", "# x", "'", '"', "|", " lead", "trail ", "\ttab", "a\r\nb", "a\n\n", "\n",
     "\n a", "a \nb", "x\x85y\nz", "\u2028", "\ufeff", "😀\n😀", "\x00\x1b", "---", "...", "!tag",
     "*a", "&a", "%x", "@x", "`x", "{", "[a]", "?", "? a", "null", "True", "", "-", "+1", "1.",
     ".5", "\x7f"]
)  # fmt: skip


@example({}, "\ufffd")
@given(
    st.dictionaries(NAMES | ODD.filter(lambda text: text != "<<"), JSON | ODD, max_size=4),
    st.text() | ODD | st.lists(ODD).map("\n".join),
)
def test_any_text_survives_writing_and_loading(arguments: dict[str, Json], text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    document = yaml_block(
        {
            "id": "x",
            "description": text,
            "turns": [
                {
                    "turn": 1,
                    "response": {
                        "kind": "tool-call",
                        "assistant_text": text,
                        "tool_calls": [{"tool_name": "t", "arguments": arguments}],
                    },
                }
            ],
        }
    )

    loading_result = loading.parse_scenario_file("x.yaml", document.encode())

    assert loading_result.mistakes == ()
    response: Any = loading_result.scenarios[0].value.turns[0].response
    assert response.assistant_text == text
    assert response.tool_calls[0].arguments == arguments


async def test_the_command_writes_a_scenario_that_answers_the_recorded_request(
    tmp_path: Path,
) -> None:
    [cassette] = write_cassettes(
        tmp_path, raw_chat_request("Where is it?"), text_response("On its ", "way.")
    )
    name = cassette.name[:8]

    result = await run_command(
        "scenario", "from", name, "--id", "mine", "--output", "it.yaml", folder=tmp_path
    )
    tried = await run_command("scenario", "try", "it.yaml", str(cassette), folder=tmp_path)
    second = await run_command("scenario", "from", name, "--output", "it.yaml", folder=tmp_path)

    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert tried.exit_code == 0, tried.stderr
    assert "mine  (it.yaml:3)  chosen: the request meets the match conditions" in tried.stdout
    assert "text: On its way." in tried.stdout
    assert second.exit_code == 2
    assert second.last_error_line == "llm-proxy: error: it.yaml already exists; choose another file"


async def test_the_command_prints_the_scenario_and_notes_beside_it(tmp_path: Path) -> None:
    write_cassettes(tmp_path, raw_chat_request("hi"), text_response("one"), text_response("two"))
    names = [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*.jsonl"))]

    result = await run_command("scenario", "from", *names, folder=tmp_path)

    assert result.exit_code == 0, result.stderr
    assert "      assistant_text: one\n" in result.stdout
    assert result.stderr == f"llm-proxy: {names[1]} is omitted because it repeats turn 1\n"


async def test_the_command_refuses_an_unusable_id(tmp_path: Path) -> None:
    result = await run_command("scenario", "from", "x", "--id", " a", folder=tmp_path)

    assert result.exit_code == 2
    assert result.last_error_line == (
        "llm-proxy: error: --id: ' a' contains non-printable characters, or "
        "starts or ends with white space"
    )


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_recorded_answers_round_trip() -> None:
    compared = 0
    for row in rows()[::19]:
        dialect = dialects.dialect_of_request(row.request)
        codec = dialect.codec_name(row.request, row.head)
        messages = tuple(framing.split_messages(codec, row.body))
        cassette = make_cassette(row.request, DialectResponse(row.head, codec, messages), row.id)
        try:
            generated = generate_scenario([cassette])
        except NotRepresentable:
            continue
        if "provider's built-in tool" in "".join(generated.omission_notes):
            continue
        assert turn_content(first_turn(generated, cassette)) == turn_content(
            cassette_response_turns(cassette)[0]
        ), row.id
        compared += 1

    assert compared > 30
