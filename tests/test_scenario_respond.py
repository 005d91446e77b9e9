"""A function of the operator's that says what a mock answers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from llm_proxy.errors import UsageError
from llm_proxy.pacing import InstantPace
from llm_proxy.scenario.documents import loading
from llm_proxy.scenario.documents.document import MockSpec
from llm_proxy.turns import Finish
from scenario_server import in_every_dialect, plain, playing

RESPONDING: Final = """
import asyncio

def echo(cue):
    return f"{cue.provider} {cue.model}: {cue.conversation.last_user_text}"

def agent(cue):
    if cue.conversation.results or cue.conversation.turn > 1:
        return {"content": "Found it.", "stopReason": "length"}
    return {"toolCalls": [{"name": "lookup", "args": {"id": 42}}]}

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
def responding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the operator's, new for each test."""
    name = f"responding_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(RESPONDING)
    monkeypatch.syspath_prepend(tmp_path)
    return name


@pytest.mark.shows("004-09")
@in_every_dialect
async def test_a_function_says_a_text_or_a_reply_and_drives_several_turns(
    tmp_path: Path, responding: str, dialect: str
) -> None:
    async with playing(tmp_path, respond=f"{responding}:echo") as stage:
        echoed = await stage.ask(dialect, said=("Hi?",))
    async with playing(tmp_path, respond=f"{responding}:agent", pace=InstantPace()) as stage:
        heard = [await stage.ask(dialect, said=item) for item in (("Hi",), ("Hi", "x", "y"))]

    assert echoed.turn.text == f"{dialect.partition('-')[0]} m: Hi?"
    assert [plain(item) for item in heard] == [
        [("call", "call-1", "lookup", '{"id":42}')],
        [("text", "Found it.")],
    ]
    assert heard[1].turn.finish is Finish.LENGTH


@pytest.mark.shows("004-09")
async def test_a_function_may_be_asynchronous(tmp_path: Path, responding: str) -> None:
    async with playing(tmp_path, respond=f"{responding}:slow") as stage:
        assert (await stage.ask()).turn.text == "Later."


@pytest.mark.shows("004-03", "004-08", "004-09")
async def test_a_reply_and_replies_come_before_a_function(tmp_path: Path, responding: str) -> None:
    heard = []
    for options in ("{reply: Fixed.}", "{replies: [Scripted.]}", "{name: mine}"):
        async with playing(tmp_path, mock=options, respond=f"{responding}:slow") as stage:
            heard.append((await stage.ask()).turn.text)

    assert heard == ["Fixed.", "Scripted.", "Later."]


@pytest.mark.shows("004-09")
@in_every_dialect
async def test_what_a_function_raises_is_an_error_of_the_server(
    tmp_path: Path, responding: str, dialect: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with playing(tmp_path, respond=f"{responding}:broken") as stage:
        heard = await stage.ask(dialect)

    why = "respond failed: KeyError: 'no such order'"
    failure = heard.turn.failure
    assert failure is not None
    assert (heard.raw.status, failure.message) == (500, why)
    [record] = [item for item in caplog.records if item.message == why]
    assert record.exc_info is not None
    assert record.exc_info[0] is KeyError
    assert [item.why for item in stage.journal.unsuccessful] == [why]


@pytest.mark.shows("004-09")
@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("odd", "there is no such field; did you mean content?"),
        ("nothing", "TypeError: it returns None, neither a text nor a reply"),
    ],
)
async def test_what_is_no_reply_is_an_error_too(
    tmp_path: Path, responding: str, function: str, why: str
) -> None:
    async with playing(tmp_path, respond=f"{responding}:{function}") as stage:
        heard = await stage.ask(stream=False)

    assert (heard.raw.status, why in heard.json["error"]["message"]) == (500, True)


@pytest.mark.shows("004-09")
async def test_a_function_that_is_not_there_is_told_at_the_start(
    tmp_path: Path, responding: str
) -> None:
    wrong = {
        "answers": "--respond answers: write MODULE:FUNCTION, such as answers:respond",
        "no_such_module:f": "--respond no_such_module:f: there is no module no_such_module",
        f"{responding}:nobody": f"--respond {responding}:nobody: {responding} has no nobody",
        f"{responding}:constant": f"--respond {responding}:constant: constant is no function",
    }
    for name, why in wrong.items():
        with pytest.raises(UsageError) as caught:
            async with playing(tmp_path, respond=name):
                pass
        assert str(caught.value) == why


@pytest.mark.shows("004-09")
def test_no_file_can_name_a_function() -> None:
    with pytest.raises(UsageError, match="respond: there is no such field"):
        loading.parse_struct(MockSpec, "--mock", "{respond: os:system}")
