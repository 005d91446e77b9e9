"""The code of docs/contributing/writing-a-fault.md runs, and its faults behave as described."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from llm_proxy.actions import Abort, Begin, Burst, Send, Wait
from llm_proxy.errors import UsageError
from llm_proxy.faults.kind import AfterBytes, AfterEvents, FaultKind
from llm_proxy.faults.kinds import FAULT_KINDS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "contributing" / "writing-a-fault.md"
FAULT_NAMES = ("NOTHING", "PAUSE", "COMMENT", "TEAPOT", "UPPERCASE")


@cache
def page_namespace() -> dict[str, Any]:
    """All names that the page defines."""
    namespace: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), namespace)  # noqa: S102 # our own code
    return namespace


def apply_fault(kind: str, *location: object, **arguments: object) -> Burst:
    burst: Burst = page_namespace()["apply_fault"](page_namespace()[kind], *location, **arguments)
    return burst


def sent_data(burst: Burst) -> list[bytes]:
    return [item.data for item in burst if isinstance(item, Send)]


IDENTITY_FAULT = "NOTHING"
"""The fault that changes nothing."""


def test_the_nothing_fault_changes_nothing() -> None:
    burst = apply_fault("NOTHING", AfterEvents(2))

    assert b"Hello" in b"".join(sent_data(burst))
    assert sent_data(burst)[-1] == b"data: [DONE]\n\n"
    assert not any(isinstance(item, Wait | Abort) for item in burst)


def test_a_pause_delays_what_follows() -> None:
    burst = apply_fault("PAUSE", AfterEvents(1), for_=50.0)

    assert sent_data(burst) == sent_data(apply_fault(IDENTITY_FAULT))
    assert burst[2] == Wait(50.0)
    with pytest.raises(UsageError, match="for must be longer than 0ms"):
        page_namespace()["pause"](for_=0)


def test_a_comment_takes_the_place_of_an_event() -> None:
    unchanged, changed = (
        sent_data(apply_fault(IDENTITY_FAULT)),
        sent_data(apply_fault("COMMENT", AfterEvents(1))),
    )

    assert changed == [unchanged[0], b": " + unchanged[1], *unchanged[2:]]


def test_a_teapot_answers_in_the_format_of_the_dialect() -> None:
    begin, body = apply_fault("TEAPOT")

    assert isinstance(begin, Begin)
    assert begin.head.status == 418
    assert b'"error"' in sent_data((body,))[0]
    assert b"I am a teapot." in sent_data((body,))[0]


def test_uppercase_changes_everything_from_its_location_on() -> None:
    unchanged, changed = (
        b"".join(sent_data(item))
        for item in (apply_fault(IDENTITY_FAULT), apply_fault("UPPERCASE", AfterBytes(40)))
    )

    assert changed == unchanged[:40] + unchanged[40:].upper()


def test_the_page_names_existing_files() -> None:
    text = PAGE.read_text()
    kinds: list[FaultKind] = [page_namespace()[item] for item in FAULT_NAMES]

    assert not {kind.name for kind in kinds} & FAULT_KINDS.keys()
    assert [kind.name for kind in kinds if not kind.example.startswith(kind.name)] == []
    for name in re.findall(r"`((?:tests|proxy)/[\w/.]+)`", text):
        assert (ROOT / name).exists(), name
