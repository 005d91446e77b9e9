from __future__ import annotations

import copy
import dataclasses

import pytest

from case_tables import each_row
from llm_proxy.actions import Abort, Action, Begin, Send, SendRaw, Wait
from llm_proxy.exchange import ResponseHead

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
