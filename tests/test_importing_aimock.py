"""Import of aimock fixtures: each becomes a scenario that answers the same requests, no others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import openai
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from case_tables import each_row
from cli_process import CommandResult, run_command
from in_process_proxy import proxy
from llm_proxy.importing import RefusedItem, aimock
from llm_proxy.importing.aimock import ConvertedFixture, FixtureScenarios
from llm_proxy.importing.source import UnreadableFile
from llm_proxy.pacing import InstantPace
from llm_proxy.scenario.documents.document import Scenario, TextResponse
from llm_proxy.scenario.documents.loading import parse_scenario_file
from sdk_clients import openai_client

Fields = dict[str, Any]

HELLO: Final[Fields] = {"content": "Hello!"}
TEXT_RESPONSE: Final[Fields] = {"kind": "text", "assistant_text": "Hello!"}
CONVERSATIONS_ONLY: Final = "a scenario answers in conversations alone"
LAST_MESSAGE: Final = "$['messages','input','contents'][-1]"


def fixture(match: Fields | None = None, response: Any = None, **fields: Any) -> Fields:
    return {"match": match or {}, "response": HELLO if response is None else response} | fields


def convert(*fixtures: Any) -> FixtureScenarios:
    return aimock.convert_fixtures(fixtures, "chat", "chat.json")


def load_scenarios(converted: FixtureScenarios) -> list[Scenario]:
    """Load the scenarios; there must be no mistakes and no warnings."""
    loaded = parse_scenario_file("chat.yaml", converted.yaml_text.encode())
    assert not loaded.mistakes
    assert not loaded.warnings
    return [scenario.value for scenario in loaded.scenarios]


def first_scenario(converted: FixtureScenarios) -> Fields:
    """The YAML fields of the first scenario."""
    assert load_scenarios(converted)
    found: Fields = yaml.safe_load(converted.yaml_text)["scenarios"][0]
    return found


def loss_names(*fixtures: Any) -> list[str]:
    """The names of all conversion losses."""
    results = convert(*fixtures).results
    return [
        loss.name
        for result in results
        if isinstance(result, ConvertedFixture)
        for loss in result.losses
    ]


def refusal_reason(refused_fixture: Any) -> str:
    """The reason why the fixture is refused."""
    converted = convert(refused_fixture)
    [result] = converted.results
    assert isinstance(result, RefusedItem)
    assert converted.yaml_text == ""
    return result.reason


def test_a_fixture_is_a_scenario_for_any_turn_and_the_order_stays() -> None:
    converted = convert(fixture({"userMessage": "hi?"}), fixture({}, {"content": "What?"}))

    assert converted.yaml_text == (
        "# Made by llm-proxy import of chat.json, fixtures of aimock; edit it as you like.\n"
        "scenarios:\n"
        "  - id: chat-1\n"
        "    description: 'Fixture 1 of chat.json: hi?'\n"
        "    match:\n"
        "      user: hi\\?\n"
        "    turns:\n"
        "      - turn: any\n"
        "        response:\n"
        "          kind: text\n"
        "          assistant_text: Hello!\n"
        "  - id: chat-2\n"
        "    description: Fixture 2 of chat.json\n"
        "    match: {}\n"
        "    turns:\n"
        "      - turn: any\n"
        "        response:\n"
        "          kind: text\n"
        "          assistant_text: What?\n"
    )
    assert converted.results == (
        ConvertedFixture(1, "chat-1", ()),
        ConvertedFixture(2, "chat-2", ()),
    )


@each_row(
    ("fixture_match", "match", "losses"),
    [
        ({"userMessage": "a.b"}, {"user": r"a\.b"}, []),
        ({"userMessage": ""}, {}, []),
        ({"systemMessage": "Be *brief*."}, {"system": r"Be \*brief\*\."}, []),
        ({"systemMessage": ["a", "b"]}, {"system": r"(?s)\A(?=.*a)(?=.*b)"}, []),
        ({"systemMessage": []}, {}, []),
        ({"model": "gpt-4[o]"}, {"model": "gpt-4[[]o]"}, ["dated models"]),
        ({"context": "ci"}, {"session": "ci"}, ["context"]),
        ({"hasToolResult": False}, {"tool_results": False}, []),
        ({"turnIndex": 1, "endpoint": "chat"}, {"turn": 2}, ["nearest turn"]),
        ({"sequenceIndex": 0, "model": None}, {"turn": 1}, ["sequence"]),
        (
            {"sequenceIndex": 0, "hasToolResult": True},
            {"tool_results": True, "turn": 2},
            ["sequence"],
        ),
        ({"toolName": "look"}, {"json": {"$['tools','toolConfig']..name": {"equals": "look"}}}, []),
        (
            {"responseFormat": "json_object"},
            {"json": {"$['response_format','text']..type": {"equals": "json_object"}}},
            [],
        ),
        (
            {"toolCallId": "c1", "toolResultContains": "{}"},
            {
                "tool_results": True,
                "json": {
                    f"{LAST_MESSAGE}..['tool_call_id','call_id','tool_use_id','toolUseId']": {
                        "equals": "c1"
                    },
                    f"{LAST_MESSAGE}..['content','output','text','response']": {"matches": r"\{\}"},
                },
            },
            [],
        ),
    ],
)
def test_a_scenario_matches_what_its_fixture_matches(
    fixture_match: Fields, match: Fields, losses: list[str]
) -> None:
    converted = convert(fixture(fixture_match))

    assert first_scenario(converted)["match"] == match
    assert loss_names(fixture(fixture_match)) == losses


@each_row(
    ("fixture_match", "reason"),
    [
        ({"inputText": "a"}, f"it is for embeddings: {CONVERSATIONS_ONLY}"),
        ({"endpoint": "image"}, f"it is for image: {CONVERSATIONS_ONLY}"),
        ({"predicate": "it"}, "its match has predicate, which no scenario can ask for"),
        ({"userMessage": {"source": "a"}}, "its userMessage is no text"),
        ({"systemMessage": [1]}, "its systemMessage is no text"),
        ({"model": ""}, "its model is empty, which no request has"),
        ({"turnIndex": -1}, "its turnIndex is no number from 0 on"),
        ({"sequenceIndex": True}, "its sequenceIndex is no number from 0 on"),
        ({"turnIndex": 0, "sequenceIndex": 1},
         "it has both turnIndex and sequenceIndex, and a scenario counts turns alone"),
        ({"hasToolResult": "no"}, "its hasToolResult is not true or false"),
        ({"hasToolResult": False, "toolCallId": "c"},
         "it asks for results of tools, and for none: nothing could be both"),
    ],
)  # fmt: skip
def test_match_fields_that_no_scenario_can_express_are_refused_and_never_left_out(
    fixture_match: Fields, reason: str
) -> None:
    assert refusal_reason(fixture(fixture_match)) == reason


CALL: Final[Fields] = {"name": "look", "arguments": '{"n": 1.0}', "id": "c1"}
CALLED: Final[Fields] = {"tool_name": "look", "arguments": {"n": 1.0}, "call_id": "c1"}


@each_row(
    ("fixture_response", "response", "losses"),
    [
        (
            {"content": {"b": 1.0, "a": []}},
            {"kind": "text", "assistant_text": '{"b":1,"a":[]}'},
            [],
        ),
        ({"toolCalls": [CALL]}, {"kind": "tool-call", "tool_calls": [CALLED]}, []),
        (
            {"toolCalls": [{"name": "a", "arguments": {}}], "content": "Wait."},
            {
                "kind": "tool-call",
                "assistant_text": "Wait.",
                "tool_calls": [{"tool_name": "a", "arguments": {}}],
            },
            [],
        ),
        (
            {"blocks": [{"type": "toolCall"} | CALL, {"type": "text", "text": "So."}]},
            {
                "kind": "parts",
                "parts": [{"part": "tool-call"} | CALLED, {"part": "text", "text": "So."}],
            },
            [],
        ),
        (
            HELLO | {"reasoning": "Hm.", "reasoningSignature": "s", "redactedThinking": ["x"]},
            TEXT_RESPONSE
            | {
                "reasoning": [
                    {"provider_metadata": {"anthropic": {"redactedData": "x"}}},
                    {"text": "Hm.", "provider_metadata": {"anthropic": {"signature": "s"}}},
                ]
            },
            [],
        ),
        (
            HELLO | {"finishReason": "length", "id": "x", "webSearches": ["q"], "odd": 1},
            TEXT_RESPONSE | {"finish_reason": "length"},
            ["envelope", "searches", "fields"],
        ),
        (
            HELLO
            | {
                "usage": {
                    "prompt_tokens": 7,
                    "completion_tokens": 2,
                    "total_tokens": 9,
                    "prompt_tokens_details": {"cached_tokens": 3},
                }
            },
            TEXT_RESPONSE | {"usage": {"input": 7, "output": 2, "total": 9, "cache_read": 3}},
            [],
        ),
        (
            HELLO | {"usage": {"input_tokens": 7, "cost": 0.1}},
            TEXT_RESPONSE | {"usage": {"input": 7}},
            ["costs"],
        ),
    ],
)
def test_a_scenario_answers_what_its_fixture_answers(
    fixture_response: Fields, response: Fields, losses: list[str]
) -> None:
    source_fixture = fixture({}, fixture_response)

    assert first_scenario(convert(source_fixture))["turns"] == [
        {"turn": "any", "response": response}
    ]
    assert loss_names(source_fixture) == losses


def test_an_error_keeps_its_status_its_fields_and_its_retry_delay() -> None:
    error = {"message": "No.", "type": "t", "code": "c", "param": None}
    empty = {"kind": "text", "assistant_text": ""}
    found = [
        first_scenario(convert(fixture({}, {"error": error} | more)))["turns"]
        for more in ({"status": 400}, {"status": 429, "retryAfter": 2}, {})
    ]
    common = {"turn": "any", "failures_before_success": 1_000_000, "failure_message": "No."}
    error_fields = {"type": "t", "code": "c"}
    assert found == [
        [common | {"failure_status": "model_error", "failure_error": {"status": 400} | error_fields,
                   "response": empty}],
        [common | {"failure_status": "rate_limit", "failure_retry_after_ms": 2000,
                   "failure_error": error_fields, "response": empty}],
        [common | {"failure_status": "model_error", "failure_error": {"status": 500} | error_fields,
                   "response": empty}],
    ]  # fmt: skip


@each_row(
    ("fixture_response", "reason"),
    [
        ("text", "it has no response"),
        ({}, "its response has none of content, toolCalls, blocks and error"),
        ({"embedding": [0.1]},
         "it answers with an embedding, and a scenario with what a model says or calls"),
        ({"error": {"message": "a"}, "status": 302},
         "its status is none of an error: from 400 to 599"),
        ({"toolCalls": [{"name": "a", "arguments": "[1]"}]},
         "the arguments of a are no JSON object"),
        ({"toolCalls": [{"name": "a", "arguments": "{"}]}, "the arguments of a are no JSON object"),
        ({"toolCalls": [5]}, "one of its calls has no name"),
        ({"blocks": [{"type": "film"}]}, "one of its blocks is neither a text nor a toolCall"),
        ({"toolCalls": [{"name": "a", "arguments": '{"a":' * 90 + "1" + "}" * 90}]},
         "the arguments of a call stand within each other more than 64 deep"),
    ],
)  # fmt: skip
def test_what_no_scenario_can_answer_is_refused(fixture_response: Any, reason: str) -> None:
    assert refusal_reason(fixture({}, fixture_response)) == reason


@each_row(
    ("fields", "expected", "losses"),
    [
        ({"chunkSize": 5, "latency": 30},
         {"chunks": {"by": "characters", "size": 5, "delay_ms": 30}}, []),
        ({"latency": 30, "replaySpeed": 2},
         {"chunks": {"by": "characters", "size": 20, "delay_ms": 15}}, []),
        ({"streamingProfile": {"ttft": 200, "tps": 40, "jitter": 0.1}},
         {"chunks": {"by": "characters", "size": 20}, "pace": "ttft=180..220ms,gap=22.5..27.5ms"},
         ["times of streams"]),
        ({"recordedTimings": {"ttftMs": 100, "interChunkDelaysMs": [10, 30]}, "replaySpeed": 4},
         {"chunks": {"by": "characters", "size": 20}, "pace": "ttft=25ms,gap=5ms"},
         ["gaps", "times of streams"]),
        ({"truncateAfterChunks": 3, "disconnectAfterMs": 500},
         {"chunks": {"by": "characters", "size": 20},
          "faults": ["close,after=3,stream=true", "close,ms=500,stream=true"]}, ["chunks"]),
        ({"chaos": {"dropRate": 0.5, "malformedRate": 1, "rateLimitRate": 0, "latencyMs": 9}},
         {"faults": ["latency,by=9ms", "status,code=500,probability=0.5",
                     "malformed-json,probability=1"]}, []),
    ],
)  # fmt: skip
def test_timing_chunk_sizes_and_faults_become_scenario_fields(
    fields: Fields, expected: Fields, losses: list[str]
) -> None:
    scenario = first_scenario(convert(fixture(**fields)))

    assert {
        name: scenario[name] for name in ("chunks", "pace", "faults") if name in scenario
    } == expected
    assert loss_names(fixture(**fields)) == losses


def test_the_file_names_omitted_fixtures_and_changed_fields() -> None:
    converted = convert(
        fixture({"turnIndex": 0}), fixture({"inputText": "a"}), fixture({"turnIndex": 1}), 5
    )

    nearest = "that turn alone: aimock answers other turns with the nearest, too"
    assert converted.yaml_text.splitlines()[1:4] == [
        f"# Fixture 1, 3: its turnIndex becomes {nearest}.",
        f"# Fixture 2 is left out: it is for embeddings: {CONVERSATIONS_ONLY}.",
        "# Fixture 4 is left out: it has no match.",
    ]


def test_files_that_would_take_long_are_refused() -> None:
    with pytest.raises(UnreadableFile, match=r"^it holds more than 10,000 fixtures: split it$"):
        convert(*[{}] * 10_001)

    assert refusal_reason(fixture({}, {"content": "a" * 1_048_576})) == "it has more than 1 MiB"


ANYTHING: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["content", "toolCalls", "name", "error", "usage", "type", "ttft", "x"]),
        inner, max_size=4,
    ),
    max_leaves=8,
)  # fmt: skip
FIELD: Final = st.sampled_from([
    "userMessage", "systemMessage", "model", "turnIndex", "hasToolResult", "toolCallId", "endpoint",
])  # fmt: skip


@given(st.dictionaries(FIELD, ANYTHING, max_size=3), ANYTHING, ANYTHING, ANYTHING)
def test_whatever_a_file_holds_its_scenarios_load(
    match: Fields, response: Any, profile: Any, size: Any
) -> None:
    source_fixture = fixture(
        match, response, streamingProfile=profile, chunkSize=size, chaos=profile
    )
    converted = convert(json.loads(json.dumps(source_fixture)), response)

    assert [result.number for result in converted.results] == [1, 2]
    assert not parse_scenario_file("a.yaml", converted.yaml_text.encode()).mistakes


TEXTS: Final = st.text(st.characters(codec="utf-8"))


@given(TEXTS, TEXTS)
def test_texts_stay_as_they_are(user: str, answer: str) -> None:
    [scenario] = load_scenarios(convert(fixture({"userMessage": user}, {"content": answer})))

    assert scenario.turns[0].response == TextResponse(assistant_text=answer)
    assert scenario.match is not None
    assert re.search(scenario.match.user, f"Say {user} now")
    assert not user or not re.search(scenario.match.user, "")


# On the command line


CHAT: Final = {
    "fixtures": [
        fixture({"userMessage": "weather", "hasToolResult": True}, {"content": "It is sunny."}),
        fixture(
            {"userMessage": "weather"},
            {"toolCalls": [{"name": "look", "arguments": {"city": "Rome"}}]},
        ),
        fixture({"userMessage": "broken"}, {
            "error": {"message": "Too long.", "code": "context_length_exceeded"}, "status": 400,
        }),
        fixture({"userMessage": "hello"}, {"content": "Hello! How are you?"}, chunkSize=6),
    ]
}  # fmt: skip
VECTOR: Final = fixture({"inputText": "a"}, {"embedding": [0.5]})


async def import_fixtures(folder: Path, document: Fields, *arguments: str) -> CommandResult:
    (folder / "chat.json").write_text(json.dumps(document))
    return await run_command("import", "chat.json", *arguments, folder=folder)


async def test_a_file_of_fixtures_becomes_one_of_scenarios_that_lint_passes(
    tmp_path: Path,
) -> None:
    ran = await import_fixtures(tmp_path, CHAT, "--scenarios", "own/scenarios")
    linted = await run_command("scenario", "lint", "own/scenarios", folder=tmp_path)

    assert (ran.exit_code, linted.exit_code) == (0, 0)
    assert (
        ran.last_error_line
        == "llm-proxy: 4 fixtures of 1 file made scenarios in own/scenarios/chat.yaml"
    )
    assert "4 scenarios checked, nothing is wrong" in linted.stderr
    assert not (tmp_path / "cassettes").exists()


async def test_each_fixture_that_cannot_be_converted_is_named(tmp_path: Path) -> None:
    ran = await import_fixtures(tmp_path, {"fixtures": [*CHAT["fixtures"], VECTOR]})
    report = json.loads((await import_fixtures(tmp_path, {"fixtures": [VECTOR]}, "--json")).stdout)

    assert ran.exit_code == 1
    assert ran.stdout.splitlines()[-1] == (
        f"chat.json, fixture 5: it is for embeddings: {CONVERSATIONS_ONLY}"
    )
    assert "partly imported" in ran.stdout
    assert report["sum"]["fixtures"] == {"imported": 0, "there before": 0, "refused": 1}
    assert report["sum"]["exchanges"] == {"imported": 0, "there before": 0, "refused": 0}
    [file] = report["files"]
    assert (file["format"], file["result"], file["scenarios"]) == ("aimock", "refused", None)
    assert file["refused"] == [{"fixture": 1, "why": f"it is for embeddings: {CONVERSATIONS_ONLY}"}]


async def test_a_file_of_scenarios_that_is_there_is_never_changed(tmp_path: Path) -> None:
    await import_fixtures(tmp_path, CHAT)
    path = tmp_path / "scenarios" / "chat.yaml"
    again = await import_fixtures(tmp_path, CHAT, "--json")
    path.write_text("# mine\n")
    refused = [
        await import_fixtures(tmp_path, CHAT, *arguments) for arguments in ((), ("--dry-run",))
    ]

    assert json.loads(again.stdout)["sum"]["fixtures"]["there before"] == 4
    assert path.read_text() == "# mine\n"
    assert [item.exit_code for item in refused] == [1, 1]
    assert refused[0].stdout.splitlines()[-1] == (
        "chat.json: scenarios/chat.yaml is there and says something else: move it away, or name "
        "another folder with --scenarios"
    )


async def test_a_dry_run_writes_no_scenario(tmp_path: Path) -> None:
    ran = await import_fixtures(tmp_path, CHAT, "--dry-run")

    assert ran.last_error_line == (
        "llm-proxy: 4 fixtures of 1 file would be made scenarios in scenarios/chat.yaml"
    )
    assert not (tmp_path / "scenarios").exists()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_openais_sdk_receives_what_the_fixtures_answer(
    tmp_path: Path, *, stream: bool
) -> None:
    path = tmp_path / "chat.yaml"
    path.write_text(convert(*CHAT["fixtures"]).yaml_text)
    async with proxy("simulate", tmp_path, scenarios=path, pace=InstantPace()) as running_proxy:
        async with openai_client(running_proxy.url) as client:
            hello = await _text_and_call(client, [_user("Well, hello there")], stream=stream)
            again = await _text_and_call(
                client,
                [_user("x"), {"role": "assistant", "content": "y"}, _user("hello")],
                stream=stream,
            )
            call = await _text_and_call(client, [_user("weather?")], stream=stream)
            result = {"role": "tool", "tool_call_id": "call-1", "content": "sunny"}
            call_message = {"role": "assistant", "tool_calls": [{
                "id": "call-1", "type": "function",
                "function": {"name": "look", "arguments": '{"city":"Rome"}'},
            }]}  # fmt: skip
            final_answer = await _text_and_call(
                client, [_user("weather?"), call_message, result], stream=stream
            )
            with pytest.raises(openai.BadRequestError) as raised:
                await _text_and_call(client, [_user("broken")], stream=stream)
        unsuccessful = running_proxy.journal.failed_sessions

    assert [hello, again, call, final_answer] == [
        ("Hello! How are you?", ""),
        ("Hello! How are you?", ""),
        ("", 'look {"city":"Rome"}'),
        ("It is sunny.", ""),
    ]
    assert (raised.value.code, raised.value.body["message"]) == (  # type: ignore[index] # an object
        "context_length_exceeded",
        "Too long.",
    )
    assert unsuccessful == []


def _user(text: str) -> Fields:
    return {"role": "user", "content": text}


async def _text_and_call(
    client: openai.AsyncOpenAI, messages: list[Any], *, stream: bool
) -> tuple[str, str]:
    """The text and the tool call of the response to these messages."""
    if not stream:
        answer = await client.chat.completions.create(model="gpt-5", messages=messages)
        message = answer.choices[0].message
        calls: list[Any] = [item.function for item in message.tool_calls or ()]  # type: ignore[union-attr] # no other kind
        return message.content or "", " ".join(f"{item.name} {item.arguments}" for item in calls)
    text, called = "", ""
    chunks = await client.chat.completions.create(model="gpt-5", messages=messages, stream=True)
    async for chunk in chunks:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for tool_call in choice.delta.tool_calls or ():
                if tool_call.function:
                    called += f"{tool_call.function.name} " if tool_call.function.name else ""
                    called += tool_call.function.arguments or ""
    return text, called
