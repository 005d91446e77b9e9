"""`--respond`: a user-supplied function provides the answers of a mock."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from case_tables import each_row
from llm_proxy.errors import UsageError
from llm_proxy.pacing import InstantPace
from llm_proxy.scenario.documents import loading
from llm_proxy.scenario.documents.document import MockSpec
from llm_proxy.turns import FinishReason
from scenario_server import in_every_dialect, part_tuples, serve_scenarios

RESPOND_SOURCE: Final = """
import asyncio

def echo(cue):
    return f"{cue.provider} {cue.model}: {cue.conversation.last_user_text}"

def agent(cue):
    if cue.conversation.results or cue.conversation.turn > 1:
        return {"content": "Found it.", "stopReason": "length"}
    return {"toolCalls": [{"name": "lookup", "args": {"id": 42}}]}

def documented(cue):
    chat = cue.conversation
    values = (chat.messages, chat.system, chat.tools, chat.first_user_text, cue.path, cue.seed)
    assert all(value is not None for value in values)
    return f"{cue.body['model']} {cue.model} {cue.dialect} {cue.session}"

async def slow(cue):
    await asyncio.sleep(0)
    return "Later."

def broken(cue):
    raise KeyError("no such order")

def odd(cue):
    return {"contents": "x"}

def nothing(cue):
    return None

constant = "Hi"
"""


@pytest.fixture
def respond_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A respond module, new for each test."""
    name = f"responding_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(RESPOND_SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    return name


@pytest.mark.shows("004-09")
@in_every_dialect
async def test_a_function_returns_a_text_or_a_reply_and_drives_several_turns(
    tmp_path: Path, respond_module: str, dialect: str
) -> None:
    async with serve_scenarios(tmp_path, respond=f"{respond_module}:echo") as server:
        echoed = await server.send(dialect, texts=("Hi?",))
    async with serve_scenarios(
        tmp_path, respond=f"{respond_module}:agent", pace=InstantPace()
    ) as server:
        responses = [await server.send(dialect, texts=item) for item in (("Hi",), ("Hi", "x", "y"))]

    assert echoed.turn.text == f"{dialect.partition('-')[0]} m: Hi?"
    assert [part_tuples(item) for item in responses] == [
        [("call", "call-1", "lookup", '{"id":42}')],
        [("text", "Found it.")],
    ]
    assert responses[1].turn.finish is FinishReason.LENGTH


async def test_a_function_reads_every_documented_attribute_of_the_request(
    tmp_path: Path, respond_module: str
) -> None:
    async with serve_scenarios(tmp_path, respond=f"{respond_module}:documented") as server:
        answered = await server.send()
    assert answered.turn.text == "m m openai-chat default"


@pytest.mark.shows("004-09")
async def test_a_function_may_be_asynchronous(tmp_path: Path, respond_module: str) -> None:
    async with serve_scenarios(tmp_path, respond=f"{respond_module}:slow") as server:
        assert (await server.send()).turn.text == "Later."


@pytest.mark.shows("004-03", "004-08", "004-09")
async def test_a_reply_and_replies_come_before_a_function(
    tmp_path: Path, respond_module: str
) -> None:
    texts = []
    for options in ("{reply: Fixed.}", "{replies: [Scripted.]}", "{name: mine}"):
        async with serve_scenarios(
            tmp_path, mock=options, respond=f"{respond_module}:slow"
        ) as server:
            texts.append((await server.send()).turn.text)

    assert texts == ["Fixed.", "Scripted.", "Later."]


@pytest.mark.shows("004-09")
@in_every_dialect
async def test_what_a_function_raises_is_an_error_of_the_server(
    tmp_path: Path, respond_module: str, dialect: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    async with serve_scenarios(tmp_path, respond=f"{respond_module}:broken") as server:
        response = await server.send(dialect)

    reason = "the --respond function failed: KeyError: 'no such order'"
    failure = response.turn.failure
    assert failure is not None
    assert (response.raw_response.status, failure.message) == (500, reason)
    [record] = [item for item in caplog.records if item.message == reason]
    assert record.exc_info is not None
    assert record.exc_info[0] is KeyError
    assert [item.reason for item in server.journal.failed_sessions] == [reason]


@pytest.mark.shows("004-09")
@each_row(
    ("function", "reason"),
    [
        ("odd", "unknown field 'contents'; did you mean 'content'?"),
        ("nothing", "TypeError: the function must return a string or a dictionary, not None"),
    ],
)
async def test_an_invalid_reply_is_an_error_too(
    tmp_path: Path, respond_module: str, function: str, reason: str
) -> None:
    async with serve_scenarios(tmp_path, respond=f"{respond_module}:{function}") as server:
        response = await server.send(stream=False)

    assert (response.raw_response.status, reason in response.json["error"]["message"]) == (
        500,
        True,
    )


@pytest.mark.shows("004-09")
async def test_a_missing_function_is_reported_at_the_start(
    tmp_path: Path, respond_module: str
) -> None:
    wrong = {
        "answers": "--respond answers: expected MODULE:NAME, such as answers:respond",
        "no_such_module:f": "--respond no_such_module:f: no such module: no_such_module",
        f"{respond_module}:nobody": (
            f"--respond {respond_module}:nobody: module {respond_module} has no nobody"
        ),
        f"{respond_module}:constant": (
            f"--respond {respond_module}:constant: constant is not a function"
        ),
    }
    for name, reason in wrong.items():
        with pytest.raises(UsageError) as caught:
            async with serve_scenarios(tmp_path, respond=name):
                pass
        assert str(caught.value) == reason


@pytest.mark.shows("004-09")
def test_no_file_can_name_a_function() -> None:
    with pytest.raises(UsageError, match="respond: unknown field"):
        loading.parse_struct(MockSpec, "--mock", "{respond: os:system}")
