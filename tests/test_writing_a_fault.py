"""The page on writing a fault: its code runs, and its faults do what it says."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from llm_proxy.actions import Abort, Begin, Burst, Send, Wait
from llm_proxy.faults.kind import FaultKind
from llm_proxy.faults.kinds import KINDS
from llm_proxy.faults.location import AfterBytes, AfterEvents

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "writing-a-fault.md"
WRITTEN = ("NOTHING", "PAUSE", "COMMENT", "TEAPOT", "LOUDER")


@cache
def names() -> dict[str, Any]:
    """All that the page writes."""
    found: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), found)  # noqa: S102 # the page's code is ours
    return found


def tried(kind: str, *place: object, **arguments: object) -> Burst:
    gone: Burst = names()["tried"](names()[kind], *place, **arguments)
    return gone


def sent(burst: Burst) -> list[bytes]:
    return [item.data for item in burst if isinstance(item, Send)]


TRUE = "NOTHING"
"""The fault that leaves everything as it is."""


def test_nothing_changes_nothing() -> None:
    burst = tried("NOTHING", AfterEvents(2))

    assert b"Hello" in b"".join(sent(burst))
    assert sent(burst)[-1] == b"data: [DONE]\n\n"
    assert not any(isinstance(item, Wait | Abort) for item in burst)


def test_a_pause_delays_what_follows() -> None:
    burst = tried("PAUSE", AfterEvents(1), for_=50.0)

    assert sent(burst) == sent(tried(TRUE))
    assert burst[2] == Wait(50.0)
    with pytest.raises(ValueError, match="for must be more than 0ms"):
        names()["Pause"](0)


def test_a_comment_takes_the_place_of_an_event() -> None:
    true, gone = sent(tried(TRUE)), sent(tried("COMMENT", AfterEvents(1)))

    assert gone == [true[0], b": " + true[1], *true[2:]]


def test_a_teapot_answers_in_the_words_of_the_dialect() -> None:
    begin, body = tried("TEAPOT")

    assert isinstance(begin, Begin)
    assert begin.head.status == 418
    assert b'"error"' in sent((body,))[0]
    assert b"I am a teapot." in sent((body,))[0]


def test_louder_speaks_in_capitals_from_its_place_on() -> None:
    true, gone = (b"".join(sent(item)) for item in (tried(TRUE), tried("LOUDER", AfterBytes(40))))

    assert gone == true[:40] + true[40:].upper()


def test_the_page_names_what_is_there() -> None:
    text = PAGE.read_text()
    kinds: list[FaultKind] = [names()[item] for item in WRITTEN]

    assert not {kind.name for kind in kinds} & KINDS.keys()
    assert [kind.name for kind in kinds if not kind.example.startswith(kind.name)] == []
    for name in re.findall(r"`((?:tests|proxy)/[\w/.]+)`", text):
        assert (ROOT / name).exists(), name
