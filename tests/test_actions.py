from __future__ import annotations

import asyncio
import copy
import dataclasses
from unittest.mock import create_autospec

import pytest

from case_tables import each_row
from llm_proxy.actions import Abort, Action, Begin, Send, SendRaw, Wait
from llm_proxy.exchange import ResponseHead
from llm_proxy.routing import RoutedRequest
from llm_proxy.shell.server import response_writer
from llm_proxy.shell.server.response_writer import ResponseWriter, perform_actions

ACTIONS = [
    Begin(ResponseHead(200, "OK", (("a", "b"),), "chunked")),
    Send(b"a"),
    SendRaw(b"a"),
    Wait(1.5),
    Abort("rst"),
]


@each_row("action", ACTIONS)
def test_an_action_is_a_value(action: Action) -> None:
    duplicate = copy.deepcopy(action)
    assert duplicate == action
    assert hash(duplicate) == hash(action)
    assert [other for other in ACTIONS if other == action] == [action]
    name = dataclasses.fields(action)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(action, name, None)


async def test_other_tasks_run_amid_a_long_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_writer, "_ACTIONS_PER_YIELD", 4)
    turns: list[int] = []

    async def other_task() -> None:
        while True:
            turns.append(len(turns))
            await asyncio.sleep(0)

    writer = create_autospec(ResponseWriter, instance=True, was_aborted=False)
    task = asyncio.create_task(other_task())
    await perform_actions((Send(b"a"),) * 11, create_autospec(RoutedRequest), writer)
    task.cancel()
    assert len(turns) == 2
    assert [call.args for call in writer.buffer_body.call_args_list] == [([b"a"] * 11,)]
