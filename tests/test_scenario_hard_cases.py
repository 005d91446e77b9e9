"""Hard cases of simulation: long, large, many, concurrent, timed, and reproducible bytes."""

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
from case_tables import each_row
from cli_process import running_server
from conversation_plans import ResponsePart, SdkResponse
from hard_cases import (
    CALLS,
    HARD_SCENARIOS,
    MEGABYTE,
    TURNS,
    WORDS,
    build_requests,
    decode_turns,
    headers_without_date,
    request_bytes,
)
from in_process_proxy import proxy
from llm_proxy.actions import Send, Wait
from llm_proxy.conversation import Conversation
from llm_proxy.dialects import dialect_of_request
from llm_proxy.dialects.base import DecodedRequest
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.modes.simulate import ResponseStore, StoredResponse
from llm_proxy.pacing import InstantPace, RecordedPace, parse_pace
from llm_proxy.scenario.scripted_response import response_actions
from llm_proxy.shell.running.proxy import RunningProxy
from llm_proxy.synthesis import lorem_words, synthesize_response
from llm_proxy.turns import ToolCall, Turn
from raw_http import RawResponse, build_http_request, open_line, send_request
from sdk_clients import openai_client
from sdk_conversations import CONVERSATION_RUNNERS
from shipped_scenarios import FOLDER, PLAYED_SCENARIOS, call_part, text_part
from thoroughness import is_thorough, quick_or_thorough
from waiting import wait_until

SESSIONS: Final = quick_or_thorough(200, 1_000)
CONNECTIONS: Final = 100
SLOTS: Final = 24
SLOT: Final = 100.0
"""Milliseconds."""


@asynccontextmanager
async def simulating(
    folder: Path, scenario: str = "", **fields: Any
) -> AsyncIterator[RunningProxy]:
    """Run a simulation of this scenario document, or of none."""
    path = folder / "scenarios.yaml"
    if scenario:
        path.write_text(scenario, "utf-8")
    async with proxy(
        "simulate",
        folder,
        scenarios=path if scenario else None,
        **{"pace": InstantPace(), **fields},
    ) as server:
        yield server


def chat(content: str, *, stream: bool = True, **fields: Any) -> bytes:
    body = {
        "model": "m",
        "stream": stream,
        "messages": [{"role": "user", "content": content}],
        **fields,
    }
    return build_http_request("/v1/chat/completions", json.dumps(body).encode())


def events(raw: RawResponse) -> list[Any]:
    """Return the JSON of each event of a chat, and the terminator."""
    data = raw.body.decode().removesuffix("\n\n").split("\n\n")
    return [
        item if item == "data: [DONE]" else json.loads(item.removeprefix("data: ")) for item in data
    ]


# Embedded instructions

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


def marked_words(count: int) -> str:
    """Return `count` words between the markers, which do not count."""
    return f"no. 7 {lorem_words(count)} no. 7"


@pytest.mark.shows("001-27 to 001-34")
async def test_an_instruction_streams_its_messages_in_order_with_one_finish(
    tmp_path: Path,
) -> None:
    """Checked on the raw events."""
    async with simulating(tmp_path) as server:
        raw = await send_request(server.url, chat(INSTRUCTED))

    *chunks, done = events(raw)
    choices = [chunk["choices"][0] for chunk in chunks]
    assert done == "data: [DONE]"
    assert [item["index"] for item in choices] == [
        *sorted(item["index"] for item in choices[:-1]),
        0,
    ]
    assert [item["index"] for item in choices if item["finish_reason"]] == [0]
    assert choices[-1] | {"logprobs": None} == {
        "index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop",
    }  # fmt: skip
    assert [_choice_content(choices, index) for index in range(3)] == [
        {"reasoning": marked_words(11), "content": marked_words(12)},
        {"look": '{"at":"Bonn","deep":[1,2.5,null]}', "note": "{}"},
        {"reasoning": marked_words(11), "content": marked_words(3)},
    ]


def _choice_content(choices: list[Any], index: int) -> dict[str, str]:
    """Return the texts of a choice in the order of their first pieces, and its calls by name."""
    texts: dict[str, str] = {}
    names: list[str] = []
    for delta in (item["delta"] for item in choices if item["index"] == index):
        for name in ("reasoning", "content"):
            if piece := delta.get(name):
                texts[name] = texts.get(name, "") + piece
        for tool_call in delta.get("tool_calls", ()):
            if "id" in tool_call:
                names.append(tool_call["function"]["name"])
                assert tool_call["index"] == len(names) - 1
            name = names[tool_call["index"]]
            texts[name] = texts.get(name, "") + tool_call["function"]["arguments"]
    return texts


@pytest.mark.shows("001-31")
async def test_the_sdk_receives_a_choice_for_each_message_of_an_instruction(tmp_path: Path) -> None:
    messages: Any = [{"role": "user", "content": INSTRUCTED}]
    async with simulating(tmp_path) as server, openai_client(server.url) as client:
        whole = await client.chat.completions.create(model="m", messages=messages)
        stream = await client.chat.completions.create(model="m", messages=messages, stream=True)
        pieces = [item.choices[0] async for item in stream]

    assert [item.message.content for item in whole.choices] == [
        marked_words(12),
        None,
        marked_words(3),
    ]
    calls = [item.function for item in whole.choices[1].message.tool_calls or ()]  # type: ignore[union-attr] # these are function calls
    assert [(item.name, item.arguments) for item in calls] == [
        ("look", '{"at":"Bonn","deep":[1,2.5,null]}'), ("note", "{}"),
    ]  # fmt: skip
    for choice in (whole.choices[0], whole.choices[2]):
        joined = "".join(
            piece.delta.content or "" for piece in pieces if piece.index == choice.index
        )
        assert joined == choice.message.content
    assert [piece.index for piece in pieces if piece.finish_reason] == [0]


# Timing


def _instruction(length: int) -> str:
    messages = [{"text_message": {"length": length}}]
    return f"<|instruction_start|>{json.dumps({'messages': messages})}<|instruction_end|>"


@pytest.mark.shows("001-18")
def test_every_slot_of_a_synthesis_is_planned_100_ms_after_the_one_before() -> None:
    """Deadlines are absolute."""
    request = build_requests([_instruction(5 * SLOTS)])[
        "openai-chat", "stream", _instruction(5 * SLOTS)
    ]
    dialect, context = dialect_of_request(request), EncodeContext("seed", 0, provider="test-llm")
    conversation = dialect.decode_request(request)
    assert conversation is not None
    response = synthesize_response(conversation, context, "choices").scripted_action

    burst = response_actions(
        response,
        DecodedRequest(dialect, request, context),
        RecordedPace(),
        660_000.0,
    )

    assert [item.due for item in burst if isinstance(item, Wait)] == [
        SLOT * slot for slot in range(1, SLOTS + 1)
    ]
    assert [isinstance(item, Send) for item in burst][-2:] == [True, True]


@pytest.mark.thorough
@pytest.mark.shows("001-18")
async def test_a_synthesis_keeps_its_slots_of_100_ms_within_2_percent(tmp_path: Path) -> None:
    """Runs at recorded pace; a busy machine may need up to three attempts."""
    deviations: list[float] = []
    async with simulating(tmp_path, pace=RecordedPace()) as server:
        while not deviations or (deviations[-1] > 0.02 and len(deviations) < 3):
            raw = await send_request(server.url, chat(_instruction(5 * SLOTS)))
            reads = zip(raw.times_ms, raw.chunks, strict=True)
            times = [at for at, piece in reads if _has_content(piece)]
            assert len(times) == SLOTS
            assert all(later > sooner for sooner, later in pairwise(times))
            deviations.append(abs((times[-1] - times[0]) / (SLOTS - 1) - SLOT) / SLOT)

    assert min(deviations) <= 0.02, deviations


def _has_content(chunk: bytes) -> bool:
    return b'"content":"' in chunk and b'"content":""' not in chunk


@pytest.mark.shows("000-62")
@each_row("pace", ["recorded", "instant", "4x", "0.5x"])
async def test_a_scripted_retry_after_is_sent_unscaled_at_any_pace(
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
        raw = await send_request(server.url, chat("busy"))

    received = (raw.status, raw.header("retry-after-ms"), raw.header("retry-after"))
    assert received == (429, "121500", "122")


@pytest.mark.shows("001-42")
async def test_nothing_more_is_written_to_a_client_that_left(tmp_path: Path) -> None:
    async with simulating(tmp_path, pace=RecordedPace()) as server:
        async with open_line(server.url) as client:
            await client.send(chat(_instruction(50_000)).replace(b"\r\n", b"\r\nHost: HOST\r\n", 1))
            await client.reader.readuntil(b'"content":')
        await wait_until(lambda: server.server.active_request_count == 0)

    [entry] = server.journal.entries
    assert (entry.status, entry.ending) == (200, "client_gone")
    assert entry.bytes < 10_000


# Reproducible bytes


async def _ask_twice(
    folder: Path, seed: int, requests: Mapping[Any, Any]
) -> dict[Any, list[RawResponse]]:
    """Send each request twice, in sequence, to a simulation in its own process."""
    folder.mkdir()
    options = ("--scenarios", str(FOLDER), "--on-unknown", "synthesis", "--pace", "instant")
    async with running_server("simulate", *options, "--seed", str(seed), folder=folder) as server:
        return {
            name: [await send_request(server.url, request_bytes(request)) for _ in range(2)]
            for name, request in requests.items()
        }


def _bytes(answers: Mapping[Any, list[RawResponse]]) -> dict[Any, Any]:
    return {
        name: [(headers_without_date(raw), raw.body) for raw in raws]
        for name, raws in answers.items()
    }


@pytest.mark.shows("000-80")
async def test_another_process_gives_the_same_bytes_and_another_seed_the_same_turns(
    tmp_path: Path,
) -> None:
    """The order of the requests does not matter."""
    requests = build_requests(["think-and-call", "Hello", f"Hi {_instruction(9)}"])
    backwards = dict(reversed(requests.items()))
    first, same_seed, other_seed = await asyncio.gather(
        _ask_twice(tmp_path / "first", 1, requests),
        _ask_twice(tmp_path / "again", 1, backwards),
        _ask_twice(tmp_path / "other", 2, requests),
    )

    assert _bytes(same_seed) == _bytes(first)
    for name, request in requests.items():
        ours, theirs = (
            [decode_turns(request, answer) for answer in answers[name]]
            for answers in (first, other_seed)
        )
        assert list(map(_without_ids, ours)) == list(map(_without_ids, theirs))
        ids = {decoded[0].id for decoded in (*ours, *theirs)}
        assert len(ids) == (1 if name[0] == "ollama" else 4)  # Ollama responses have no ids


def _without_ids(decoded: tuple[Turn, ...]) -> list[Any]:
    return [
        ([replace(part, metadata=()) for part in item.parts], item.finish, item.usage, item.model)
        for item in decoded
    ]


# Large inputs and many sessions


_LONG_ENOUGH: Final = ("anthropic", "ollama")
"""Dialects whose SDKs send fifty turns easily; the others are tested below with raw requests."""


async def _sdk_answers(dialect: str, url: str) -> dict[tuple[str, str], list[SdkResponse]]:
    conversations = {
        (name, mode): replace(
            case.conversation_plan(name, dialect, stream=mode == "stream"), id=f"{name}.{mode}"
        )
        for name, case in HARD_SCENARIOS.items()
        for mode in ("stream", "whole")
        if name != "long" or (dialect in _LONG_ENOUGH and (mode == "stream" or is_thorough()))
    }
    answers = await CONVERSATION_RUNNERS[dialect](url, [*conversations.values()])
    return dict(zip(conversations, answers, strict=True))


def test_the_hard_cases_have_their_sizes() -> None:
    assert (TURNS, CALLS, WORDS) == (50, 64, 10_000)
    assert len(MEGABYTE.encode()) > 1_000_000


@pytest.mark.shows("000-104")
@pytest.mark.parametrize("dialect", CONVERSATION_RUNNERS)
async def test_what_is_long_large_many_or_deep_is_received_exactly(
    dialect: str, tmp_path: Path
) -> None:
    if reason := sdk_conversations.missing_reason(dialect):
        pytest.skip(reason)
    async with simulating(tmp_path, hard_cases.scenario_document()) as server:
        answers = await _sdk_answers(dialect, server.url)

    wrong = [
        name
        for name, turns in answers.items()
        if turns
        != [
            turn.expected_response(dialect, stream=name[1] == "stream")
            for turn in HARD_SCENARIOS[name[0]].turns
        ]
    ]
    assert wrong == []
    assert server.journal.failed_sessions == []


@pytest.mark.shows("000-52", "000-54 to 000-57")
async def test_many_sessions_at_once_each_fail_exactly_twice(tmp_path: Path) -> None:
    scenario = """
      id: busy
      description: Fails twice.
      turns:
        - {turn: 1, failures_before_success: 2, response: {kind: text, assistant_text: Now.}}
    """
    statuses: list[list[int]] = [[] for _ in range(SESSIONS)]
    busy = build_requests(["busy"])["openai-chat", "whole", "busy"]
    async with simulating(tmp_path, scenario) as server:

        async def send_attempts(sessions: range) -> None:
            async with open_line(server.url, timeout_s=60) as client:
                for _ in range(3):
                    for session in sessions:
                        header = f"x-llm-proxy-session: s{session}"
                        await client.send(request_bytes(busy, "Host: HOST", header))
                        statuses[session].append((await client.read_response()).status)

        await asyncio.gather(
            *(send_attempts(range(at, SESSIONS, CONNECTIONS)) for at in range(CONNECTIONS))
        )

    assert statuses == [[500, 500, 200]] * SESSIONS


# Responses by id


@pytest.mark.shows("000-29")
async def test_an_answer_is_there_by_its_id_and_can_be_continued(tmp_path: Path) -> None:
    """Earlier turns of the conversation are remembered."""
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


@each_row("background", [False, True])
async def test_an_answer_is_streamed_again_by_its_id_as_it_was(
    background: bool, tmp_path: Path
) -> None:
    scenario = """
      id: hi
      description: A greeting, word by word.
      chunks: {by: words}
      turns: [{turn: 1, response: {kind: text, assistant_text: And hello to you.}}]
    """
    arguments: Any = {"model": "m", "input": "hi", "background": background, "temperature": 0.5}
    async with simulating(tmp_path, scenario) as server, openai_client(server.url) as client:
        first = [item async for item in await client.responses.create(**arguments, stream=True)]
        response_id = first[0].response.id
        replayed = [
            item async for item in await client.responses.retrieve(response_id, stream=True)
        ]

    assert [item.to_dict() for item in replayed] == [item.to_dict() for item in first]
    assert len([item for item in first if item.type == "response.output_text.delta"]) == 4


@pytest.mark.shows("000-29")
async def test_fifty_turns_that_each_name_the_one_before_are_remembered(tmp_path: Path) -> None:
    async with (
        simulating(tmp_path, hard_cases.scenario_document()) as server,
        openai_client(server.url) as client,
    ):
        next_input: Any = "long"
        previous: str | None = None
        parts_by_turn: list[list[ResponsePart]] = []
        for _ in range(TURNS):
            response = await client.responses.create(
                model="m", input=next_input, previous_response_id=previous
            )
            previous, received = response.id, SdkResponse()
            if response.output_text:
                received.parts.append(("text", response.output_text))
            calls = [item for item in response.output if item.type == "function_call"]
            received.parts += [("call", item.name, json.loads(item.arguments)) for item in calls]
            next_input = "Go on"
            parts_by_turn.append(received.parts)

    assert parts_by_turn == [list(turn.parts) for turn in HARD_SCENARIOS["long"].turns]


@pytest.mark.shows("000-29", "000-35")
@each_row("mode", ["stream", "whole"])
@each_row("dialect", CONVERSATION_RUNNERS)
async def test_a_history_of_any_length_is_counted(dialect: str, mode: str, tmp_path: Path) -> None:
    """Checked with raw requests."""
    numbers = (1, 2, TURNS - 1, TURNS)
    requests = [
        hard_cases.build_request(dialect, ["long", *["Go on"] * (number - 1)], mode)
        for number in numbers
    ]
    beyond = hard_cases.build_request(dialect, ["long", *["Go on"] * TURNS], mode)
    async with simulating(tmp_path, hard_cases.scenario_document()) as server:
        answers = [
            decode_turns(item, await send_request(server.url, request_bytes(item)))
            for item in requests
        ]
        [mismatch] = decode_turns(beyond, await send_request(server.url, request_bytes(beyond)))

    assert [_turn_content(turn) for [turn] in answers] == [
        list(HARD_SCENARIOS["long"].turns[number - 1].parts) for number in numbers
    ]
    assert mismatch.failure is not None
    assert mismatch.failure.message.startswith(
        f"Scenario long has no turn {TURNS + 1}; its turns: 1,"
    )


def test_answers_to_large_requests_are_forgotten_sooner() -> None:
    """Agents send the whole history with each request, and a run may last for days."""
    store = ResponseStore()
    stored = StoredResponse(
        Conversation(()), (), EncodeContext("", 0), b" " * 1024 * 1024, "openai-responses"
    )
    for number in range(65):
        store.store("s", replace(stored, response_turns=(Turn((), id=str(number)),)))

    kept_numbers = [number for number in range(65) if store.find("s", str(number))]
    assert kept_numbers == list(range(1, 65))


def _turn_content(turn: Turn) -> list[ResponsePart]:
    """Return the texts and calls of a turn."""
    texts = [text_part(turn.text)] if turn.text else []
    calls = [part for part in turn.parts if isinstance(part, ToolCall)]
    return [*texts, *(call_part(item.name, **json.loads(item.arguments)) for item in calls)]


# Other clients


@pytest.mark.thorough
@pytest.mark.parametrize("judge", ["ai-sdk", "openai-node"])
async def test_node_clients_receive_the_same(judge: str, tmp_path: Path) -> None:
    if reason := judge_runner.missing_reason(judge):
        pytest.skip(reason)
    cases = {
        f"{scenario_id}, {dialect}, {mode}": (scenario_id, dialect, mode, fields[mode])
        for dialect, fields in judge_runner.load_abilities(judge).items()
        for mode in ("stream", "whole")
        for scenario_id in ("think", "fragments", "in-order", "report")
        if "calls" in fields[mode]
    }
    judge_requests = [
        judge_runner.JudgeRequest(name, dialect, "m", scenario_id, mode == "stream", tools=True)
        for name, (scenario_id, dialect, mode, _) in cases.items()
    ]
    async with proxy("simulate", tmp_path, scenarios=FOLDER) as server:
        answers = await judge_runner.run_judge(judge, server.url, judge_requests)

    assert {item.id: _comparable(asdict(item), cases[item.id][3]) for item in answers} == {
        name: _comparable(_expected_content(scenario_id), fields)
        for name, (scenario_id, _, _, fields) in cases.items()
    }


def _comparable(content: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """Return the texts, reasoning and calls that a client can report, without ids."""
    comparable = {name: content[name] for name in ("text", "reasoning", "calls") if name in fields}
    return comparable | {"calls": [(item["name"], item["arguments"]) for item in content["calls"]]}


def _expected_content(scenario_id: str) -> dict[str, Any]:
    """Return what a client reports of a shipped scenario, with texts, reasoning and calls apart."""
    [turn] = PLAYED_SCENARIOS[scenario_id].turns
    content = {
        kind: "".join(part[1] for part in turn.parts if part[0] == kind)
        for kind in ("text", "reasoning")
    }
    calls = [{"name": part[1], "arguments": part[2]} for part in turn.parts if part[0] == "call"]
    return {**content, "calls": calls}
