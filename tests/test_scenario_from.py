"""What was recorded becomes a scenario that says the same again, to be edited by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import corpus
from cli_process import run
from corpus import rows
from dialect_manners import asking
from llm_proxy import dialects, framing
from llm_proxy.cassette import Cassette
from llm_proxy.cassette.model import End, Meta, StoredRequest, sha256
from llm_proxy.cassette_views import cassette_turns, stored_http_request
from llm_proxy.dialects import DialectResponse
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.errors import NotRepresentable
from llm_proxy.exchange import Ending, Read, Request, ResponseHead
from llm_proxy.scenario.documents import loading
from llm_proxy.scenario.documents.document import Scenario
from llm_proxy.scenario.engine import turns
from llm_proxy.scenario.engine.match_context import MatchContext
from llm_proxy.scenario.recorded.from_cassettes import (
    GeneratedScenario,
    ScenarioOptions,
    generate_scenario,
)
from llm_proxy.scenario.recorded.yaml_writing import yaml_block
from llm_proxy.turns import (
    Failure,
    Finish,
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
from stored_cassettes import chat, put, says

DELIVERY: Final = EncodeContext("recorded", 1_700_000_000)
USER: Final[Json] = {"role": "user", "content": "Where is order 42? (a|b)"}
CALLED: Final[Json] = {"role": "assistant", "tool_calls": []}
TOOL: Final[Json] = {"type": "function", "function": {"name": "lookup", "parameters": {}}}


def exchange(
    request: Request, response: DialectResponse, file: str = "one.jsonl", at: int = 0
) -> Cassette:
    """A cassette of an answer; `at` is the second in which it was recorded."""
    dialect = dialects.find_dialect(request)
    body = b"".join(response.messages)
    return Cassette(
        file,
        Meta(
            tool="by hand",
            recorded=f"2026-01-01T00:00:{at:02}.000Z",
            dialect=dialect.name,
            provider="openai",
            model=dialect.model(request),
            session="default",
            key="0123456789abcdef" * 4,
            key_rules=1,
            redaction_rules=1,
        ),
        StoredRequest(request.method, request.path, request.query, request.headers, request.body),
        response.head,
        0.0,
        response.codec,
        "",
        tuple(response.messages),
        (Read(1.0, body),),
        End(Ending.CLEAN, 1.0, len(body), sha256(body)),
    )


def spoken(request: Request, *turns: Turn, file: str = "one.jsonl", at: int = 0) -> Cassette:
    """A cassette in which this was said."""
    response = dialects.chat_dialects()[dialects.find_dialect(request).name].encode(
        request, turns, DELIVERY
    )
    return exchange(request, response, file, at)


def refused(
    request: Request, status: int, *headers: tuple[str, str], file: str = "no.jsonl", at: int = 0
) -> Cassette:
    """A cassette of an HTTP error."""
    dialect = dialects.chat_dialects()[dialects.find_dialect(request).name]
    response = dialect.error_response(status, Failure("Slow down"), DELIVERY)
    head = replace(response.head, headers=(*response.head.headers, *headers))
    return exchange(request, replace(response, head=head), file, at)


def talk(*messages: Json, **more: Any) -> Request:
    """A chat completion request."""
    said = list(messages) or [USER]
    return asking("/v1/chat/completions", model="gpt-5", stream=True, messages=said, **more)


def loaded(told: GeneratedScenario) -> Scenario:
    """The scenario as its document is read."""
    found = loading.load_file("made.yaml", told.text.encode())
    missing = [warning for warning in found.warnings if "is missing" not in warning.message]
    assert (found.mistakes, missing) == ((), [])
    [placed] = found.scenarios
    return placed.value


def played(told: GeneratedScenario, cassette: Cassette) -> Turn:
    """What the scenario's first step answers to the request of this cassette."""
    conversation = dialects.dialect_named(cassette.meta.dialect).decode_request(
        stored_http_request(cassette)
    )
    assert conversation is not None
    cue = MatchContext(
        conversation, None, "m", "/", "openai", cassette.meta.dialect, "default", "seed"
    )
    return turns.scripted_turn(loaded(told).turns[0].response, cue)


def said(turn: Turn) -> list[tuple[object, ...]]:
    """What a turn says, without what only its provider could read."""
    told: list[tuple[object, ...]] = []
    for part in turn.parts:
        match part:
            case Text(text=text) | Refusal(text=text) if text:
                told.append((type(part), text))
            case Reasoning(text=text, signature=signature, redacted=redacted):
                told.append((text, signature or "", redacted or ""))
            case ToolCall(name=name, arguments=arguments):
                told.append((name, json.loads(arguments or "{}")))
            case _:
                pass
    return told


TURN: Final = Turn(
    (
        Reasoning("Let me see.", signature="c2VhbA=="),
        Text("I look.\n\n  - twice\n"),
        ToolCall("call_7", "lookup", '{"id": 42, "note": "1e3", "deep": [null, {"no": true}]}'),
    ),
    usage=Usage(10, 5, 15, cache_read=2),
)
TELLING: Final = sorted(set(dialects.chat_dialects()) - {"openai-completions"})


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("name", TELLING)
def test_every_dialect_says_the_same_again(name: str, stream: bool) -> None:
    cassette = spoken(dialects.chat_dialects()[name].sample_request("m", stream=stream), TURN)
    [recorded] = cassette_turns(cassette)

    told = generate_scenario([cassette])

    again = played(told, cassette)
    assert said(again) == said(recorded)
    assert again.finish is recorded.finish
    assert recorded.usage is None or again.usage == replace(
        recorded.usage, total=(recorded.usage.input or 0) + (recorded.usage.output or 0)
    )


def test_a_conversation_becomes_a_document_that_people_edit() -> None:
    history: list[Json] = [{"role": "system", "content": "You help.\nBe brief."}, USER]
    result: Json = {"role": "tool", "tool_call_id": "call_7", "content": "{}"}
    counted = {"stream_options": {"include_usage": True}}
    first = spoken(talk(*history, tools=[TOOL], temperature=0.2, top_p=1, **counted), TURN, at=1)
    last = spoken(
        talk(*history, CALLED, result),
        Turn((Text("In transit."),), Finish.LENGTH),
        file="two.jsonl",
        at=2,
    )

    told = generate_scenario([last, first], ScenarioOptions(matches_exactly=True))

    assert (
        told.text
        == r"""# Made by llm-proxy scenario from; edit it as you like. It was recorded in:
#   one.jsonl
#   two.jsonl
id: openai-chat-gpt-5-01234567
description: Where is order 42? (a|b)
match:
  user: ^Where is order 42\? \(a\|b\)$
# The system prompt may be any. To demand a part of it:
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
    assert told.notes == ()
    assert [step.turn for step in loaded(told).turns] == [1, 2]


def test_only_the_tools_are_expected_unless_it_is_to_be_exact() -> None:
    told = generate_scenario([spoken(talk(tools=[TOOL, TOOL], temperature=0.2, top_p=1), TURN)])

    [step] = loaded(told).turns
    assert step.expected_tools == ("lookup",)
    assert (step.expected_temperature, step.expected_top_p) == (None, None)


NO_OBJECT: Final = "the arguments of lookup, which are no JSON object that a scenario holds"
CALL: Final = ToolCall("call-1", "lookup", "{}")


@pytest.mark.parametrize(
    ("turn", "response"),
    [
        (Turn((Text("Yes."),)), {"kind": "text", "assistant_text": "Yes."}),
        (Turn(()), {"kind": "text", "assistant_text": ""}),
        (
            Turn((Text("Yes."),), Finish.CONTENT_FILTER),
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
def test_an_answer_takes_the_plainest_form_that_says_it(turn: Turn, response: Json) -> None:
    told = generate_scenario([spoken(talk(), turn)])

    steps: Any = told.generate_scenario["turns"]
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
    told = generate_scenario([spoken(request, Turn(parts))])

    steps: Any = told.generate_scenario["turns"]
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

    steps: Any = generate_scenario([spoken(request, Turn(parts))]).generate_scenario["turns"]

    assert steps[0]["response"]["tool_calls"] == [
        {"tool_name": "lookup", "arguments": {}},
        {
            "assistant_text": "And now.",
            "tool_name": "other",
            "call_id": "toolu_2",
            "arguments": {},
        },
    ]


@pytest.mark.parametrize(
    ("parts", "note"),
    [
        (
            (Text("x"), Media("image/png", base64="aGk=")),
            "turn 1 does not say: image/png",
        ),
        (
            (ToolCall("call_1", "lookup", '{"cut'),),
            f"turn 1 does not say: {NO_OBJECT}",
        ),
        (
            (ToolCall("call_1", "lookup", '{"x": NaN}'),),
            f"turn 1 does not say: {NO_OBJECT}",
        ),
    ],
    ids=["media", "arguments", "no number"],
)
def test_what_a_scenario_cannot_say_is_noted(parts: Any, note: str) -> None:
    assert generate_scenario([spoken(talk(), Turn(parts))]).notes == (note,)


def test_what_the_provider_did_itself_is_left_out_and_noted() -> None:
    request = dialects.chat_dialects()["anthropic"].sample_request("m", stream=True)
    search = ToolCall("srvtoolu_1", "web_search", "{}", (("type", "server_tool_use"),))
    found = ToolResult("srvtoolu_1", "[]", metadata=(("type", "web_search_tool_result"),))

    told = generate_scenario([spoken(request, Turn((search, found, Text("Found."))))])

    own = "the provider's own tool web_search; what the provider's own tools gave"
    assert told.notes[0] == f"turn 1 does not say: {own}"


def test_of_several_choices_the_first_is_played() -> None:
    told = generate_scenario([spoken(talk(n=2), Turn((Text("a"),)), Turn((Text("b"),)))])

    steps: Any = told.generate_scenario["turns"]
    assert steps[0]["response"] == {"kind": "text", "assistant_text": "a"}
    assert told.notes == ("turn 1 does not say: 1 of 2 choices",)


@pytest.mark.parametrize(
    ("failures", "fails"),
    [
        (
            [refused(talk(), 429, ("retry-after", "2"))],
            {"failure_status": "rate_limit", "failure_retry_after_ms": 2000},
        ),
        (
            [refused(talk(), 429, ("retry-after-ms", "1500"), ("retry-after", "2"))],
            {"failure_status": "rate_limit", "failure_retry_after_ms": 1500},
        ),
        (
            [refused(talk(), 429, ("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT"))],
            {"failure_status": "rate_limit"},
        ),
        ([refused(talk(), 500)], {"failure_status": "model_error"}),
        (
            [refused(talk(), 503), refused(talk(), 503)],
            {"failure_status": "model_error", "failure_error": {"status": 503}},
        ),
        ([refused(talk(), 400)], {"failure_status": "model_error", "failure_retryable": False}),
        (
            [refused(talk(), 404)],
            {
                "failure_status": "model_error",
                "failure_retryable": False,
                "failure_error": {"status": 404},
            },
        ),
        (
            [refused(talk(), 409)],
            {"failure_status": "model_error", "failure_error": {"status": 409}},
        ),
        (
            [spoken(talk(), Turn((Text("I"),), failure=Failure("Slow down")))],
            {"failure_status": "model_error"},
        ),
    ],
    ids=["429", "ms", "date", "500", "503 twice", "400", "404", "409", "in the stream"],
)
def test_failures_before_an_answer_come_before_it_again(
    failures: Sequence[Cassette], fails: dict[str, Json]
) -> None:
    told = generate_scenario([*failures, spoken(talk(), TURN, at=9)])

    steps: Any = told.generate_scenario["turns"]
    counted = {"failures_before_success": len(failures), "failure_message": "Slow down"}
    failed = {name: it for name, it in steps[0].items() if name.startswith("failure")}
    assert failed == counted | fails
    assert told.notes == ()
    assert loaded(told).turns[0].failures_before_success == len(failures)


def test_failures_of_several_kinds_are_played_as_the_last() -> None:
    told = generate_scenario(
        [refused(talk(), 500), refused(talk(), 429, at=1), spoken(talk(), TURN, at=2)]
    )

    [step] = loaded(told).turns
    assert (step.failures_before_success, step.failure_status) == (2, "rate_limit")
    assert told.notes == ("turn 1 failed in several ways: it fails 2 times as last",)


def test_of_two_answers_for_a_turn_the_first_is_played() -> None:
    first = spoken(talk(), Turn((Text("first"),)), file="a.jsonl", at=1)
    second = spoken(talk(), Turn((Text("second"),)), file="b.jsonl", at=2)
    later = refused(talk(), 500, file="c.jsonl", at=3)

    told = generate_scenario([later, second, first])

    assert said(played(told, first)) == [(Text, "first")]
    assert told.notes == (
        "b.jsonl is turn 1 again, and left out",
        "c.jsonl is turn 1 again, and left out",
    )


def test_turns_that_are_not_there_are_noted() -> None:
    failed = refused(talk(USER, CALLED), 500, file="b.jsonl", at=1)
    last = spoken(talk(USER, CALLED, USER, CALLED, USER, CALLED), TURN)

    told = generate_scenario([failed, last])

    assert [step.turn for step in loaded(told).turns] == [4]
    assert told.notes == (
        "turn 2 is left out: b.jsonl is a failure, as is all else",
        "turn 1, 3 is in none of these cassettes",
    )


def test_an_answer_that_is_continued_by_its_id_is_the_turn_before() -> None:
    def turn(number: int, previous: str = "") -> Cassette:
        more = {"previous_response_id": previous} if previous else {}
        request = asking("/v1/responses", model="m", stream=True, input=f"text {number}", **more)
        told = Turn((Text(f"answer {number}"),), id=f"resp_{number}")
        return spoken(request, told, file=f"{number}.jsonl", at=number)

    told = generate_scenario([turn(1), turn(2, "resp_1"), turn(3, "resp_2")])

    made = loaded(told)
    assert [step.turn for step in made.turns] == [1, 2, 3]
    assert made.match is not None
    assert made.match.user == "^(?:text 1$|text 2$|text 3$)"
    with pytest.raises(
        NotRepresentable, match=r"3\.jsonl continues the answer resp_2, which none of"
    ):
        generate_scenario([turn(1), turn(3, "resp_2")])


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("hi", "^hi$"),
        (r"a.b*c+d?(e)[f]{g}|h^i$j\k", r"^a\.b\*c\+d\?\(e\)\[f\]\{g\}\|h\^i\$j\\k$"),
        ("two\nlines", r"^two\nlines$"),
        ("x" * 201, "^" + "x" * 200),
    ],
)
def test_the_same_user_text_finds_it(text: str, pattern: str) -> None:
    told = generate_scenario([spoken(talk({"role": "user", "content": text}), TURN)])

    match = loaded(told).match
    assert match is not None
    assert match.user == pattern
    assert re.search(pattern, text)
    assert re.search(pattern, "before " + text) is None


def test_without_a_user_text_it_must_be_named() -> None:
    told = generate_scenario(
        [spoken(talk({"role": "system", "content": "Go."}), TURN)], ScenarioOptions("agent")
    )

    made = loaded(told)
    assert (made.id, made.match) == ("agent", None)
    assert made.description == "A recorded conversation."
    assert told.notes == ("no user text was recorded: name the scenario by a header or a session",)


OTHER: Final = talk({"role": "user", "content": "Something else"})
TWO: Final = (
    "one.jsonl and b.jsonl are of two conversations, as their first user texts say: "
    "make a scenario of each"
)
PARTIAL: Final = (
    "one.jsonl is partial: no [DONE], choice 0 unfinished; played again it would seem whole"
)
CUT: Final = DialectResponse(
    ResponseHead(200, "OK", (("content-type", "text/event-stream"),), "chunked"),
    "sse",
    (b'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n',),
)


@pytest.mark.parametrize(
    ("cassettes", "why"),
    [
        ([], "a scenario is made of cassettes, and there are none"),
        (
            [exchange(Request("GET", "/v1/models", "", (), b""), CUT)],
            "one.jsonl holds no turn: a scenario is made of those",
        ),
        (
            [exchange(talk(), CUT)],
            PARTIAL,
        ),
        (
            [refused(talk(), 500)],
            "no.jsonl is a failure, and no answer was recorded after it: give one too",
        ),
        (
            [spoken(talk(), TURN), spoken(OTHER, TURN, file="b.jsonl")],
            TWO,
        ),
    ],
    ids=["nothing", "no turn", "partial", "failure", "two conversations"],
)
def test_what_makes_no_scenario_is_refused(cassettes: list[Cassette], why: str) -> None:
    with pytest.raises(NotRepresentable) as refusal:
        generate_scenario(cassettes)

    assert str(refusal.value) == why


FINITE: Final = st.floats(allow_nan=False, allow_infinity=False)
NAMES: Final = st.text(max_size=5).filter(lambda it: it not in {"<<", "\0"})
"""A document has no place for these two."""
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


@settings(max_examples=30, deadline=None)
@example({}, "\ufffd")
@given(
    st.dictionaries(NAMES | ODD.filter(lambda it: it != "<<"), JSON | ODD, max_size=4),
    st.text() | ODD | st.lists(ODD).map("\n".join),
)
def test_whatever_was_said_is_read_as_it_was(arguments: dict[str, Json], text: str) -> None:
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

    found = loading.load_file("x.yaml", document.encode())

    assert found.mistakes == ()
    response: Any = found.scenarios[0].value.turns[0].response
    assert response.assistant_text == text
    assert response.tool_calls[0].arguments == arguments


async def test_the_command_writes_a_scenario_that_answers_the_recorded_request(
    tmp_path: Path,
) -> None:
    [cassette] = put(tmp_path, chat("Where is it?"), says("On its ", "way."))
    name = cassette.name[:8]

    ran = await run(
        "scenario", "from", name, "--id", "mine", "--output", "it.yaml", folder=tmp_path
    )
    tried = await run("scenario", "try", "it.yaml", str(cassette), folder=tmp_path)
    again = await run("scenario", "from", name, "--output", "it.yaml", folder=tmp_path)

    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert tried.code == 0, tried.err
    assert "mine  (it.yaml:3)  answers: its match holds" in tried.out
    assert "text: On its way." in tried.out
    assert again.code == 2
    assert again.complaint == "llm-proxy: it.yaml is there already: name another file"


async def test_the_command_prints_the_scenario_and_notes_beside_it(tmp_path: Path) -> None:
    put(tmp_path, chat("hi"), says("one"), says("two"))
    names = [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*.jsonl"))]

    ran = await run("scenario", "from", *names, folder=tmp_path)

    assert ran.code == 0, ran.err
    assert "      assistant_text: one\n" in ran.out
    assert ran.err == f"llm-proxy: {names[1]} is turn 1 again, and left out\n"


async def test_the_command_refuses_an_id_that_nobody_could_ask_for(tmp_path: Path) -> None:
    ran = await run("scenario", "from", "x", "--id", " a", folder=tmp_path)

    assert ran.code == 2
    assert ran.complaint.startswith("llm-proxy: --id must be printable, without blanks around it")


@pytest.mark.corpus
@pytest.mark.skipif(not corpus.available(), reason=corpus.REASON)
def test_real_answers_are_said_again_in_full() -> None:
    compared = 0
    for row in rows()[::19]:
        dialect = dialects.find_dialect(row.request)
        codec = dialect.codec(row.request, row.head)
        messages = tuple(framing.split_messages(codec, row.body))
        cassette = exchange(row.request, DialectResponse(row.head, codec, messages), row.id)
        try:
            told = generate_scenario([cassette])
        except NotRepresentable:
            continue
        if "provider's own tool" in "".join(told.notes):
            continue
        assert said(played(told, cassette)) == said(cassette_turns(cassette)[0]), row.id
        compared += 1

    assert compared > 30
