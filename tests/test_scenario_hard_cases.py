"""What is hard for a simulation: long, large, many, at once, slow, in the same bytes again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import openai
import pytest

import hard_cases
import judge_runner
import sdk_conversations
from cli_process import serving
from conversation_plans import Heard, Said
from hard_cases import CALLS, HARD, MEGABYTE, TURNS, WORDS, questions, same_head, sent, turns
from in_process_proxy import proxy
from llm_proxy.actions import Send, Wait
from llm_proxy.conversation import Conversation
from llm_proxy.dialects import find_dialect
from llm_proxy.dialects.decoded_request import DecodedRequest
from llm_proxy.dialects.encode_context import EncodeContext
from llm_proxy.pacing import InstantPace, RecordedPace, parse_pace
from llm_proxy.scenario.engine.response_store import ResponseStore, StoredResponse
from llm_proxy.scenario.render.actions import response_actions
from llm_proxy.scenario.render.failures import FailureLimits
from llm_proxy.shell.running.proxy import RunningProxy
from llm_proxy.shell.running.settings import SimulationOptions
from llm_proxy.synthesis import lorem
from llm_proxy.synthesis.response import synthesize_response
from llm_proxy.turns import ToolCall, Turn
from raw_http import Raw, ask, line, post
from sdk_clients import openai_client
from sdk_conversations import SPEAKERS
from shipped_scenarios import FOLDER, PLAYED, call, text
from waiting import until

SESSIONS: Final = 1_000
CONNECTIONS: Final = 100
SLOTS: Final = 24
SLOT: Final = 100.0
"""ms."""


@asynccontextmanager
async def simulating(folder: Path, scenario: str = "", **more: Any) -> AsyncIterator[RunningProxy]:
    """A simulation of this one scenario document, or of none."""
    path = folder / "scenarios.yaml"
    if scenario:
        path.write_text(scenario, "utf-8")
    how = SimulationOptions(scenarios=path if scenario else None, **more.pop("how", {}))
    async with proxy("simulate", folder, simulating=how, **{"pace": InstantPace(), **more}) as it:
        yield it


def chat(say: str, *, stream: bool = True, **more: Any) -> bytes:
    body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": say}], **more}
    return post("/v1/chat/completions", json.dumps(body).encode())


def events(raw: Raw) -> list[Any]:
    """The JSON of each event of a chat, and the terminator."""
    data = raw.body.decode().removesuffix("\n\n").split("\n\n")
    return [
        item if item == "data: [DONE]" else json.loads(item.removeprefix("data: ")) for item in data
    ]


# An instruction of one's own.

INSTRUCTED: Final = "Do this: <|instruction_start|>{}<|instruction_end|> and no more.".format(
    json.dumps({
        "id_message": "no. 7",
        "reasoning": {"length": 11},
        "messages": [
            {"text_message": {"length": 12}},
            {"tool_call": [
                {"name": "look", "args": {"at": "Bonn", "deep": [1, 2.5, None]}},
                {"name": "note", "args": {}},
            ]},
            {"text_message": {"length": 3}},
        ],
    })
)  # fmt: skip


def marked(count: int) -> str:
    """So many words, between the marks that are not counted."""
    return f"no. 7 {lorem.lorem_words(count)} no. 7"


@pytest.mark.shows("001-27 to 001-34")
async def test_an_instruction_streams_its_messages_in_order_with_one_finish(
    tmp_path: Path,
) -> None:
    """As bytes."""
    async with simulating(tmp_path) as server:
        raw = await ask(server.url, chat(INSTRUCTED))

    *chunks, done = events(raw)
    told = [chunk["choices"][0] for chunk in chunks]
    assert done == "data: [DONE]"
    assert [item["index"] for item in told] == [*sorted(item["index"] for item in told[:-1]), 0]
    assert [item["index"] for item in told if item["finish_reason"]] == [0]
    assert told[-1] | {"logprobs": None} == {
        "index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop",
    }  # fmt: skip
    assert [_told_of(told, index) for index in range(3)] == [
        {"reasoning": marked(11), "content": marked(12)},
        {"look": '{"at":"Bonn","deep":[1,2.5,null]}', "note": "{}"},
        {"reasoning": marked(11), "content": marked(3)},
    ]


def _told_of(told: list[Any], index: int) -> dict[str, str]:
    """The texts of a choice in the order in which they began, and its calls by name."""
    texts: dict[str, str] = {}
    names: list[str] = []
    for delta in (item["delta"] for item in told if item["index"] == index):
        for name in ("reasoning", "content"):
            if piece := delta.get(name):
                texts[name] = texts.get(name, "") + piece
        for it in delta.get("tool_calls", ()):
            if "id" in it:
                names.append(it["function"]["name"])
                assert it["index"] == len(names) - 1
            name = names[it["index"]]
            texts[name] = texts.get(name, "") + it["function"]["arguments"]
    return texts


@pytest.mark.shows("001-31")
async def test_the_sdk_hears_a_choice_for_each_message_of_an_instruction(tmp_path: Path) -> None:
    messages: Any = [{"role": "user", "content": INSTRUCTED}]
    async with simulating(tmp_path) as server, openai_client(server.url) as client:
        whole = await client.chat.completions.create(model="m", messages=messages)
        stream = await client.chat.completions.create(model="m", messages=messages, stream=True)
        pieces = [item.choices[0] async for item in stream]

    assert [item.message.content for item in whole.choices] == [marked(12), None, marked(3)]
    calls = [item.function for item in whole.choices[1].message.tool_calls or ()]  # type: ignore[union-attr] # calls of functions
    assert [(item.name, item.arguments) for item in calls] == [
        ("look", '{"at":"Bonn","deep":[1,2.5,null]}'), ("note", "{}"),
    ]  # fmt: skip
    for choice in (whole.choices[0], whole.choices[2]):
        heard = "".join(
            piece.delta.content or "" for piece in pieces if piece.index == choice.index
        )
        assert heard == choice.message.content
    assert [piece.index for piece in pieces if piece.finish_reason] == [0]


# Time.


def _instruction(length: int) -> str:
    messages = [{"text_message": {"length": length}}]
    return f"<|instruction_start|>{json.dumps({'messages': messages})}<|instruction_end|>"


@pytest.mark.shows("001-18")
def test_every_slot_of_a_synthesis_is_planned_100_ms_after_the_one_before() -> None:
    """By absolute deadlines."""
    request = questions([_instruction(5 * SLOTS)])["openai-chat", "stream", _instruction(5 * SLOTS)]
    dialect, delivery = find_dialect(request), EncodeContext("seed", 0, provider="test-llm")
    conversation = dialect.decode_request(request)
    assert conversation is not None
    say = synthesize_response(conversation, delivery, "choices").say

    burst = response_actions(
        say,
        DecodedRequest(dialect, request, delivery),
        dialect.output_chars,
        RecordedPace(),
        FailureLimits(),
    )

    assert [item.due for item in burst if isinstance(item, Wait)] == [
        SLOT * slot for slot in range(1, SLOTS + 1)
    ]
    assert [isinstance(item, Send) for item in burst][-2:] == [True, True]


@pytest.mark.shows("001-18")
async def test_a_synthesis_keeps_its_slots_of_100_ms_within_2_percent(tmp_path: Path) -> None:
    """At real pace; a machine that is busy may need a second try, or a third."""
    off: list[float] = []
    async with simulating(tmp_path, pace=RecordedPace()) as server:
        while not off or (off[-1] > 0.02 and len(off) < 3):
            raw = await ask(server.url, chat(_instruction(5 * SLOTS)))
            each = zip(raw.times, raw.chunks, strict=True)
            said = [at for at, piece in each if _says(piece)]
            assert len(said) == SLOTS
            assert all(later > sooner for sooner, later in pairwise(said))
            off.append(abs((said[-1] - said[0]) / (SLOTS - 1) - SLOT) / SLOT)

    assert min(off) <= 0.02, off


def _says(chunk: bytes) -> bool:
    return b'"content":"' in chunk and b'"content":""' not in chunk


@pytest.mark.shows("000-62")
@pytest.mark.parametrize("pace", ["recorded", "instant", "4x", "0.5x"])
async def test_a_scripted_wait_leaves_as_it_was_written_at_any_pace(
    pace: str, tmp_path: Path
) -> None:
    scenario = """
      id: busy
      description: Says when to ask again.
      turns:
        - turn: 1
          failures_before_success: 1
          failure_status: rate_limit
          failure_retry_after_ms: 121500
          response: {kind: text, assistant_text: Now.}
    """
    async with simulating(tmp_path, scenario, pace=parse_pace(pace)) as server:
        raw = await ask(server.url, chat("busy"))

    told = (raw.status, raw.header("retry-after-ms"), raw.header("retry-after"))
    assert told == (429, "121500", "122")


@pytest.mark.shows("001-42")
async def test_nothing_more_is_written_to_a_client_that_left(tmp_path: Path) -> None:
    async with simulating(tmp_path, pace=RecordedPace()) as server:
        async with line(server.url) as client:
            await client.send(chat(_instruction(50_000)).replace(b"\r\n", b"\r\nHost: HOST\r\n", 1))
            await client.reader.readuntil(b'"content":')
        await until(lambda: server.server.active_count == 0)

    [entry] = server.journal.entries
    assert (entry.status, entry.ending) == (200, "client_gone")
    assert entry.bytes < 10_000


# The same bytes again.


async def _answers(folder: Path, seed: int, asked: Mapping[Any, Any]) -> dict[Any, list[Raw]]:
    """Each of these asked twice of a simulation in a process of its own, one after the other."""
    folder.mkdir()
    options = ("--scenarios", str(FOLDER), "--on-unknown", "synthesis", "--pace", "instant")
    async with serving("simulate", *options, "--seed", str(seed), folder=folder) as server:
        return {
            name: [await ask(server.url, sent(it)) for _ in range(2)] for name, it in asked.items()
        }


def _bytes(answers: Mapping[Any, list[Raw]]) -> dict[Any, Any]:
    return {name: [(same_head(raw), raw.body) for raw in raws] for name, raws in answers.items()}


@pytest.mark.shows("000-80")
async def test_another_process_gives_the_same_bytes_and_another_seed_the_same_turns(
    tmp_path: Path,
) -> None:
    """Also where requests come in another order."""
    asked = questions(["think-and-call", "Hello", f"Hi {_instruction(9)}"])
    backwards = dict(reversed(asked.items()))
    first, again, other = await asyncio.gather(
        _answers(tmp_path / "first", 1, asked),
        _answers(tmp_path / "again", 1, backwards),
        _answers(tmp_path / "other", 2, asked),
    )

    assert _bytes(again) == _bytes(first)
    for name, request in asked.items():
        ours, theirs = (
            [turns(request, answer) for answer in answers[name]] for answers in (first, other)
        )
        assert list(map(_without_ids, ours)) == list(map(_without_ids, theirs))
        ids = {said[0].id for said in (*ours, *theirs)}
        assert len(ids) == (1 if name[0] == "ollama" else 4)  # whose answers have none


def _without_ids(said: tuple[Turn, ...]) -> list[Any]:
    return [
        ([replace(part, metadata=()) for part in item.parts], item.finish, item.usage, item.model)
        for item in said
    ]


# As much as can be asked for.


_LONG_ENOUGH: Final = ("anthropic", "ollama")
"""The dialects whose SDKs send fifty turns without much ado; others are asked below."""


async def _heard_of_all(dialect: str, url: str) -> dict[tuple[str, str], list[Heard]]:
    talks = {
        (name, mode): replace(it.talk(name, dialect, stream=mode == "stream"), id=f"{name}.{mode}")
        for name, it in HARD.items()
        for mode in ("stream", "whole")
        if name != "long" or dialect in _LONG_ENOUGH
    }
    heard = await SPEAKERS[dialect](url, [*talks.values()])
    return dict(zip(talks, heard, strict=True))


def test_what_is_hard_is_as_hard_as_it_should_be() -> None:
    assert (TURNS, CALLS, WORDS) == (50, 64, 10_000)
    assert len(MEGABYTE.encode()) > 1_000_000


@pytest.mark.shows("000-104")
@pytest.mark.parametrize("dialect", SPEAKERS)
async def test_what_is_long_large_many_or_deep_is_heard_exactly(
    dialect: str, tmp_path: Path
) -> None:
    if why := sdk_conversations.missing(dialect):
        pytest.skip(why)
    async with simulating(tmp_path, hard_cases.document()) as server:
        heard = await _heard_of_all(dialect, server.url)

    wrong = [
        name
        for name, turns in heard.items()
        if turns
        != [turn.heard(dialect, stream=name[1] == "stream") for turn in HARD[name[0]].turns]
    ]
    assert wrong == []
    assert server.journal.unsuccessful == []


@pytest.mark.long
@pytest.mark.shows("000-52", "000-54 to 000-57")
async def test_a_thousand_sessions_at_once_each_fail_exactly_twice(tmp_path: Path) -> None:
    scenario = """
      id: busy
      description: Fails twice.
      turns:
        - {turn: 1, failures_before_success: 2, response: {kind: text, assistant_text: Now.}}
    """
    found: list[list[int]] = [[] for _ in range(SESSIONS)]
    busy = questions(["busy"])["openai-chat", "whole", "busy"]
    async with simulating(tmp_path, scenario) as server:

        async def attempts(sessions: range) -> None:
            async with line(server.url, within=60) as client:
                for _ in range(3):
                    for session in sessions:
                        about = f"x-llm-proxy-session: s{session}"
                        await client.send(sent(busy, "Host: HOST", about))
                        found[session].append((await client.answer()).status)

        await asyncio.gather(
            *(attempts(range(at, SESSIONS, CONNECTIONS)) for at in range(CONNECTIONS))
        )

    assert found == [[500, 500, 200]] * SESSIONS


# Answers that are asked for by their id.


@pytest.mark.shows("000-29")
async def test_an_answer_is_there_by_its_id_and_can_be_continued(tmp_path: Path) -> None:
    """What came before is remembered."""
    scenario = """
      id: two
      description: Two turns.
      turns:
        - {turn: 1, response: {kind: tool-call, tool_calls: [{tool_name: now}]}}
        - {turn: 2, response: {kind: text, assistant_text: It is noon.}}
        - {turn: 3, response: {kind: text, assistant_text: As I said.}}
    """
    async with simulating(tmp_path, scenario) as server, openai_client(server.url) as client:
        first = await client.responses.create(model="m", input="two")
        [call] = [item for item in first.output if item.type == "function_call"]
        result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "12:00"}
        stream = await client.responses.create(
            model="m", input=[result], previous_response_id=first.id, stream=True
        )
        completed: Any = [item async for item in stream][-1]
        second = completed.response
        third = await client.responses.create(
            model="m", input="What?", previous_response_id=second.id
        )
        fetched = [await client.responses.retrieve(item.id) for item in (first, second, third)]
        with pytest.raises(openai.APIStatusError) as raised:
            await client.responses.retrieve("resp_of_nobody")

    assert (call.name, second.output_text, third.output_text) == (
        "now", "It is noon.", "As I said.",
    )  # fmt: skip
    assert [item.to_dict() for item in fetched] == [
        item.to_dict() for item in (first, second, third)
    ]
    assert second.previous_response_id == first.id
    assert raised.value.status_code == 404


@pytest.mark.parametrize("background", [False, True])
async def test_an_answer_is_streamed_again_by_its_id_as_it_was(
    background: bool, tmp_path: Path
) -> None:
    scenario = """
      id: hi
      description: A greeting, word by word.
      chunks: {by: words}
      turns: [{turn: 1, response: {kind: text, assistant_text: And hello to you.}}]
    """
    asked: Any = {"model": "m", "input": "hi", "background": background, "temperature": 0.5}
    async with simulating(tmp_path, scenario) as server, openai_client(server.url) as client:
        first = [item async for item in await client.responses.create(**asked, stream=True)]
        answer = first[0].response.id
        again = [item async for item in await client.responses.retrieve(answer, stream=True)]

    assert [item.to_dict() for item in again] == [item.to_dict() for item in first]
    assert len([item for item in first if item.type == "response.output_text.delta"]) == 4


@pytest.mark.shows("000-29")
async def test_fifty_turns_that_each_name_the_one_before_are_remembered(tmp_path: Path) -> None:
    async with (
        simulating(tmp_path, hard_cases.document()) as server,
        openai_client(server.url) as client,
    ):
        asked: Any = "long"
        previous: str | None = None
        heard: list[list[Said]] = []
        for _ in range(TURNS):
            answer = await client.responses.create(
                model="m", input=asked, previous_response_id=previous
            )
            previous, told = answer.id, Heard()
            if answer.output_text:
                told.parts.append(("text", answer.output_text))
            calls = [item for item in answer.output if item.type == "function_call"]
            told.parts += [("call", item.name, json.loads(item.arguments)) for item in calls]
            asked = "Go on"
            heard.append(told.parts)

    assert heard == [list(turn.parts) for turn in HARD["long"].turns]


@pytest.mark.shows("000-29", "000-35")
@pytest.mark.parametrize("mode", ["stream", "whole"])
@pytest.mark.parametrize("dialect", SPEAKERS)
async def test_a_history_of_any_length_is_counted(dialect: str, mode: str, tmp_path: Path) -> None:
    """As raw requests."""
    numbers = (1, 2, TURNS - 1, TURNS)
    asked = [
        hard_cases.question(dialect, ["long", *["Go on"] * (number - 1)], mode)
        for number in numbers
    ]
    beyond = hard_cases.question(dialect, ["long", *["Go on"] * TURNS], mode)
    async with simulating(tmp_path, hard_cases.document()) as server:
        answers = [turns(item, await ask(server.url, sent(item))) for item in asked]
        [last] = turns(beyond, await ask(server.url, sent(beyond)))

    assert [_said(turn) for [turn] in answers] == [
        list(HARD["long"].turns[number - 1].parts) for number in numbers
    ]
    assert last.text == "Encountered scenario mismatch."


def test_answers_to_large_requests_are_forgotten_sooner() -> None:
    """Agents send all that was said with each request, and a run may last for days."""
    memory = ResponseStore()
    given = StoredResponse(
        Conversation(()), (), EncodeContext("", 0), b" " * 1024 * 1024, "openai-responses"
    )
    for number in range(65):
        memory.store("s", replace(given, turns=(Turn((), id=str(number)),)))

    kept = [number for number in range(65) if memory.find("s", str(number))]
    assert kept == list(range(1, 65))


def _said(turn: Turn) -> list[Said]:
    """The texts and calls of a turn."""
    texts = [text(turn.text)] if turn.text else []
    calls = [part for part in turn.parts if isinstance(part, ToolCall)]
    return [*texts, *(call(item.name, **json.loads(item.arguments)) for item in calls)]


# Other clients.


@pytest.mark.parametrize("judge", ["ai-sdk", "openai-node"])
async def test_clients_of_node_hear_the_same(judge: str, tmp_path: Path) -> None:
    if why := judge_runner.missing(judge):
        pytest.skip(why)
    told = {
        f"{say}, {dialect}, {mode}": (say, dialect, mode, fields[mode])
        for dialect, fields in judge_runner.abilities(judge).items()
        for mode in ("stream", "whole")
        for say in ("think", "fragments", "in-order", "report")
        if "calls" in fields[mode]
    }
    asks = [
        judge_runner.Ask(name, dialect, "m", say, mode == "stream", tools=True)
        for name, (say, dialect, mode, _) in told.items()
    ]
    async with proxy(
        "simulate", tmp_path, simulating=SimulationOptions(scenarios=FOLDER)
    ) as server:
        heard = await judge_runner.ask(judge, server.url, asks)

    assert {item.id: _kept(asdict(item), told[item.id][3]) for item in heard} == {
        name: _kept(_of(say), fields) for name, (say, _, _, fields) in told.items()
    }


def _kept(said: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """What a client can tell of texts, reasoning and calls, but for ids."""
    told = {name: said[name] for name in ("text", "reasoning", "calls") if name in fields}
    return told | {"calls": [(item["name"], item["arguments"]) for item in said["calls"]]}


def _of(say: str) -> dict[str, Any]:
    """What a client hears of a shipped scenario that keeps texts, reasoning and calls apart."""
    [turn] = PLAYED[say].turns
    said = {
        kind: "".join(part[1] for part in turn.parts if part[0] == kind)
        for kind in ("text", "reasoning")
    }
    calls = [{"name": part[1], "arguments": part[2]} for part in turn.parts if part[0] == "call"]
    return {**said, "calls": calls}
