"""Fixtures of aimock become scenarios that answer what they were written for, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import openai
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cli_process import Ran, run
from in_process_proxy import proxy
from llm_proxy.importing import RefusedItem, aimock
from llm_proxy.importing.aimock import ConvertedFixture, FixtureScenarios
from llm_proxy.importing.source import UnreadableFile
from llm_proxy.pacing import InstantPace
from llm_proxy.scenario.documents.document import Scenario, TextResponse
from llm_proxy.scenario.documents.loading import load_file
from llm_proxy.shell.running.settings import SimulationOptions
from sdk_clients import openai_client

Fields = dict[str, Any]

HELLO: Final[Fields] = {"content": "Hello!"}
SAID: Final[Fields] = {"kind": "text", "assistant_text": "Hello!"}
ALONE: Final = "a scenario answers in conversations alone"
LAST: Final = "$['messages','input','contents'][-1]"


def fixture(match: Fields | None = None, response: Any = None, **fields: Any) -> Fields:
    return {"match": match or {}, "response": HELLO if response is None else response} | fields


def scripted(*fixtures: Any) -> FixtureScenarios:
    return aimock.convert_fixtures(fixtures, "chat", "chat.json")


def played(script: FixtureScenarios) -> list[Scenario]:
    """The scenarios as they are played, all without a mistake or a warning."""
    loaded = load_file("chat.yaml", script.text.encode())
    assert not loaded.mistakes
    assert not loaded.warnings
    return [scenario.value for scenario in loaded.scenarios]


def written(script: FixtureScenarios) -> Fields:
    """The first scenario as it stands in its file."""
    assert played(script)
    found: Fields = yaml.safe_load(script.text)["scenarios"][0]
    return found


def lost(*fixtures: Any) -> list[str]:
    """What is said otherwise, by name."""
    results = scripted(*fixtures).results
    return [
        loss.name
        for result in results
        if isinstance(result, ConvertedFixture)
        for loss in result.losses
    ]


def refusal(it: Any) -> str:
    """Why a fixture is refused."""
    script = scripted(it)
    [result] = script.results
    assert isinstance(result, RefusedItem)
    assert script.text == ""
    return result.reason


def test_a_fixture_is_a_scenario_for_any_turn_and_the_order_stays() -> None:
    script = scripted(fixture({"userMessage": "hi?"}), fixture({}, {"content": "What?"}))

    assert script.text == (
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
    assert script.results == (ConvertedFixture(1, "chat-1", ()), ConvertedFixture(2, "chat-2", ()))


@pytest.mark.parametrize(
    ("asked", "match", "losses"),
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
        ({"sequenceIndex": 0, "hasToolResult": True}, {"tool_results": True, "turn": 2},
         ["sequence"]),
        ({"toolName": "look"}, {"json": {"$['tools','toolConfig']..name": {"equals": "look"}}}, []),
        ({"responseFormat": "json_object"},
         {"json": {"$['response_format','text']..type": {"equals": "json_object"}}}, []),
        ({"toolCallId": "c1", "toolResultContains": "{}"},
         {"tool_results": True, "json": {
             f"{LAST}..['tool_call_id','call_id','tool_use_id','toolUseId']": {"equals": "c1"},
             f"{LAST}..['content','output','text','response']": {"matches": r"\{\}"},
         }}, []),
    ],
    ids=lambda it: ", ".join(it) if isinstance(it, dict) else "",
)  # fmt: skip
def test_what_a_fixture_matches_its_scenario_does(
    asked: Fields, match: Fields, losses: list[str]
) -> None:
    script = scripted(fixture(asked))

    assert written(script)["match"] == match
    assert lost(fixture(asked)) == losses


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"inputText": "a"}, f"it is for embeddings: {ALONE}"),
        ({"endpoint": "image"}, f"it is for image: {ALONE}"),
        ({"predicate": "it"}, "its match has predicate, which no scenario can ask for"),
        ({"userMessage": {"source": "a"}}, "its userMessage is no text"),
        ({"systemMessage": [1]}, "its systemMessage is no text"),
        ({"model": ""}, "its model is empty, which no request has"),
        ({"turnIndex": -1}, "its turnIndex is no number from 0 on"),
        ({"sequenceIndex": True}, "its sequenceIndex is no number from 0 on"),
        ({"turnIndex": 0, "sequenceIndex": 1},
         "it has both turnIndex and sequenceIndex, and a scenario counts turns alone"),
        ({"hasToolResult": "no"}, "its hasToolResult is neither true nor false"),
        ({"hasToolResult": False, "toolCallId": "c"},
         "it asks for results of tools, and for none: nothing could be both"),
    ],
)  # fmt: skip
def test_what_no_scenario_can_ask_for_is_refused_and_never_left_out(
    asked: Fields, why: str
) -> None:
    assert refusal(fixture(asked)) == why


CALL: Final[Fields] = {"name": "look", "arguments": '{"n": 1.0}', "id": "c1"}
CALLED: Final[Fields] = {"tool_name": "look", "arguments": {"n": 1.0}, "call_id": "c1"}


@pytest.mark.parametrize(
    ("answer", "response", "losses"),
    [
        ({"content": {"b": 1.0, "a": []}},
         {"kind": "text", "assistant_text": '{"b":1,"a":[]}'}, []),
        ({"toolCalls": [CALL]}, {"kind": "tool-call", "tool_calls": [CALLED]}, []),
        ({"toolCalls": [{"name": "a", "arguments": {}}], "content": "Wait."},
         {"kind": "tool-call", "assistant_text": "Wait.",
          "tool_calls": [{"tool_name": "a", "arguments": {}}]}, []),
        ({"blocks": [{"type": "toolCall"} | CALL, {"type": "text", "text": "So."}]},
         {"kind": "parts",
          "parts": [{"part": "tool-call"} | CALLED, {"part": "text", "text": "So."}]}, []),
        (HELLO | {"reasoning": "Hm.", "reasoningSignature": "s", "redactedThinking": ["x"]},
         SAID | {"reasoning": [
             {"provider_metadata": {"anthropic": {"redactedData": "x"}}},
             {"text": "Hm.", "provider_metadata": {"anthropic": {"signature": "s"}}},
         ]}, []),
        (HELLO | {"finishReason": "length", "id": "x", "webSearches": ["q"], "odd": 1},
         SAID | {"finish_reason": "length"}, ["envelope", "searches", "fields"]),
        (HELLO | {"usage": {
            "prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9,
            "prompt_tokens_details": {"cached_tokens": 3},
        }}, SAID | {"usage": {"input": 7, "output": 2, "total": 9, "cache_read": 3}}, []),
        (HELLO | {"usage": {"input_tokens": 7, "cost": 0.1}}, SAID | {"usage": {"input": 7}},
         ["costs"]),
    ],
)  # fmt: skip
def test_what_a_fixture_answers_its_scenario_does(
    answer: Fields, response: Fields, losses: list[str]
) -> None:
    it = fixture({}, answer)

    assert written(scripted(it))["turns"] == [{"turn": "any", "response": response}]
    assert lost(it) == losses


def test_an_error_is_told_with_its_status_its_fields_and_when_to_ask_again() -> None:
    error = {"message": "No.", "type": "t", "code": "c", "param": None}
    empty = {"kind": "text", "assistant_text": ""}
    found = [
        written(scripted(fixture({}, {"error": error} | more)))["turns"]
        for more in ({"status": 400}, {"status": 429, "retryAfter": 2}, {})
    ]
    common = {"turn": "any", "failures_before_success": 1_000_000, "failure_message": "No."}
    said = {"type": "t", "code": "c"}
    assert found == [
        [common | {"failure_status": "model_error", "failure_error": {"status": 400} | said,
                   "response": empty}],
        [common | {"failure_status": "rate_limit", "failure_retry_after_ms": 2000,
                   "failure_error": said, "response": empty}],
        [common | {"failure_status": "model_error", "failure_error": {"status": 500} | said,
                   "response": empty}],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "why"),
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
def test_what_no_scenario_can_answer_is_refused(answer: Any, why: str) -> None:
    assert refusal(fixture({}, answer)) == why


@pytest.mark.parametrize(
    ("fields", "said", "losses"),
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
def test_times_pieces_and_faults_are_told_in_a_scenarios_words(
    fields: Fields, said: Fields, losses: list[str]
) -> None:
    it = written(scripted(fixture(**fields)))

    assert {name: it[name] for name in ("chunks", "pace", "faults") if name in it} == said
    assert lost(fixture(**fields)) == losses


def test_the_file_says_what_is_left_out_and_what_is_said_otherwise() -> None:
    script = scripted(
        fixture({"turnIndex": 0}), fixture({"inputText": "a"}), fixture({"turnIndex": 1}), 5
    )

    nearest = "that turn alone: aimock answers other turns with the nearest, too"
    assert script.text.splitlines()[1:4] == [
        f"# Fixture 1, 3: its turnIndex becomes {nearest}.",
        f"# Fixture 2 is left out: it is for embeddings: {ALONE}.",
        "# Fixture 4 is left out: it has no match.",
    ]


def test_files_that_would_take_long_are_refused() -> None:
    with pytest.raises(UnreadableFile, match=r"^it holds more than 10,000 fixtures: split it$"):
        scripted(*[{}] * 10_001)

    assert refusal(fixture({}, {"content": "a" * 1_048_576})) == "it has more than 1 MiB"


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


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(FIELD, ANYTHING, max_size=3), ANYTHING, ANYTHING, ANYTHING)
def test_whatever_a_file_holds_its_scenarios_load(
    match: Fields, response: Any, profile: Any, size: Any
) -> None:
    told = fixture(match, response, streamingProfile=profile, chunkSize=size, chaos=profile)
    script = scripted(json.loads(json.dumps(told)), response)

    assert [result.number for result in script.results] == [1, 2]
    assert not load_file("a.yaml", script.text.encode()).mistakes


TEXTS: Final = st.text(st.characters(codec="utf-8"))


@settings(max_examples=60, deadline=None)
@given(TEXTS, TEXTS)
def test_texts_stay_as_they_are(user: str, answer: str) -> None:
    [it] = played(scripted(fixture({"userMessage": user}, {"content": answer})))

    assert it.turns[0].response == TextResponse(assistant_text=answer)
    assert it.match is not None
    assert re.search(it.match.user, f"Say {user} now")
    assert not user or not re.search(it.match.user, "")


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


async def imported(folder: Path, document: Fields, *arguments: str) -> Ran:
    (folder / "chat.json").write_text(json.dumps(document))
    return await run("import", "chat.json", *arguments, folder=folder)


async def test_a_file_of_fixtures_becomes_one_of_scenarios_that_lint_passes(
    tmp_path: Path,
) -> None:
    ran = await imported(tmp_path, CHAT, "--scenarios", "own/scenarios")
    linted = await run("scenario", "lint", "own/scenarios", folder=tmp_path)

    assert (ran.code, linted.code) == (0, 0)
    assert (
        ran.complaint == "llm-proxy: 4 fixtures of 1 file made scenarios in own/scenarios/chat.yaml"
    )
    assert "4 scenarios checked, nothing is wrong" in linted.err
    assert not (tmp_path / "cassettes").exists()


async def test_what_cannot_be_said_is_named_fixture_by_fixture(tmp_path: Path) -> None:
    ran = await imported(tmp_path, {"fixtures": [*CHAT["fixtures"], VECTOR]})
    told = json.loads((await imported(tmp_path, {"fixtures": [VECTOR]}, "--json")).out)

    assert ran.code == 1
    assert ran.out.splitlines()[-1] == (f"chat.json, fixture 5: it is for embeddings: {ALONE}")
    assert "partly imported" in ran.out
    assert told["sum"]["fixtures"] == {"imported": 0, "there before": 0, "refused": 1}
    assert told["sum"]["exchanges"] == {"imported": 0, "there before": 0, "refused": 0}
    [file] = told["files"]
    assert (file["format"], file["result"], file["scenarios"]) == ("aimock", "refused", None)
    assert file["refused"] == [{"fixture": 1, "why": f"it is for embeddings: {ALONE}"}]


async def test_a_file_of_scenarios_that_is_there_is_never_changed(tmp_path: Path) -> None:
    await imported(tmp_path, CHAT)
    path = tmp_path / "scenarios" / "chat.yaml"
    again = await imported(tmp_path, CHAT, "--json")
    path.write_text("# mine\n")
    refused = [await imported(tmp_path, CHAT, *more) for more in ((), ("--dry-run",))]

    assert json.loads(again.out)["sum"]["fixtures"]["there before"] == 4
    assert path.read_text() == "# mine\n"
    assert [item.code for item in refused] == [1, 1]
    assert refused[0].out.splitlines()[-1] == (
        "chat.json: scenarios/chat.yaml is there and says something else: move it away, or name "
        "another folder with --scenarios"
    )


async def test_a_dry_run_writes_no_scenario(tmp_path: Path) -> None:
    ran = await imported(tmp_path, CHAT, "--dry-run")

    assert ran.complaint == (
        "llm-proxy: 4 fixtures of 1 file would be made scenarios in scenarios/chat.yaml"
    )
    assert not (tmp_path / "scenarios").exists()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_openais_sdk_hears_what_the_fixtures_say(tmp_path: Path, *, stream: bool) -> None:
    path = tmp_path / "chat.yaml"
    path.write_text(scripted(*CHAT["fixtures"]).text)
    simulating = SimulationOptions(scenarios=path)
    async with proxy("simulate", tmp_path, simulating=simulating, pace=InstantPace()) as it:
        async with openai_client(it.url) as client:
            hello = await _said(client, [_user("Well, hello there")], stream=stream)
            again = await _said(
                client,
                [_user("x"), {"role": "assistant", "content": "y"}, _user("hello")],
                stream=stream,
            )
            call = await _said(client, [_user("weather?")], stream=stream)
            result = {"role": "tool", "tool_call_id": "call-1", "content": "sunny"}
            calling = {"role": "assistant", "tool_calls": [{
                "id": "call-1", "type": "function",
                "function": {"name": "look", "arguments": '{"city":"Rome"}'},
            }]}  # fmt: skip
            told = await _said(client, [_user("weather?"), calling, result], stream=stream)
            with pytest.raises(openai.BadRequestError) as raised:
                await _said(client, [_user("broken")], stream=stream)
        unsuccessful = it.journal.unsuccessful

    assert [hello, again, call, told] == [
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


async def _said(
    client: openai.AsyncOpenAI, messages: list[Any], *, stream: bool
) -> tuple[str, str]:
    """The text and the call that an answer has."""
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
            for it in choice.delta.tool_calls or ():
                if it.function:
                    called += f"{it.function.name} " if it.function.name else ""
                    called += it.function.arguments or ""
    return text, called
