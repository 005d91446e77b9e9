"""docs/how-to/chat.md and docs/reference/chat.md: their examples run, and nothing is left out.

`test_readme` follows the guide with its files and commands.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pytest

import llm_chat
from case_tables import each_row
from llm_proxy import LLMProxy

DOCS: Final = Path(__file__).parents[1] / "docs"
GUIDE: Final = (DOCS / "how-to" / "chat.md").read_text("utf-8")
REFERENCE: Final = (DOCS / "reference" / "chat.md").read_text("utf-8")
_PYTHON_BLOCK: Final = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_FILE_BLOCK: Final = re.compile(r"`[\w/]+\.\w+`:\n\n```python\n.*?^```", re.DOTALL | re.MULTILINE)
"""A block that the reader saves, which `test_readme` runs."""

CALLING_MODEL: Final = """
id: Is it raining in Oslo?
description: Calls the tool, then reports the weather.
turns:
  - turn: 1
    response: {kind: tool-call, tool_calls: [{tool_name: get_weather, arguments: {city: Oslo}}]}
  - {turn: 2, response: {kind: text, assistant_text: It is raining.}}
"""


def run_examples(page: str, folder: Path) -> list[dict[str, Any]]:
    """Run each Python block that is no file of the reader; return their names and values."""
    (folder / "weather.yaml").write_text(CALLING_MODEL, "utf-8")
    ran: list[dict[str, Any]] = []
    with LLMProxy(
        "simulate", in_process=True, pace="instant",
        scenarios=folder, options={"on-unknown": "synthesis"},
    ):  # fmt: skip
        for block in _PYTHON_BLOCK.findall(_FILE_BLOCK.sub("", page)):
            ran.append({"__name__": "__main__"})
            exec(compile(block, "example", "exec"), ran[-1])  # noqa: S102 # the page's own
    return ran


def test_the_examples_of_the_guide_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    continued, cancelled, limited, own_provider = run_examples(GUIDE, tmp_path)

    assert {"main"} <= continued.keys() & cancelled.keys() & own_provider.keys()
    assert limited["client"].token_limits.limit_of("my-model") == 32_768
    printed = capsys.readouterr().out
    assert "Which sea does it reach?cancelled\n" in printed  # synthesis ends with the question
    assert "TextEvent(text='You wrote: Hello')" in printed
    assert printed.endswith("Finish(reason='complete')\n")


def test_the_examples_of_the_reference_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, other_server = run_examples(REFERENCE, tmp_path)

    assert capsys.readouterr().out == (
        "get_weather {'city': 'Oslo', 'weather': 'rain'}\nIt is raining."
    )
    assert other_server["registry"].get_default().name == "gpu"


@each_row("name", llm_chat.__all__)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    assert re.search(rf"`[^`\n]*\b{name}\b", REFERENCE)


def test_every_option_of_a_chat_is_in_the_reference() -> None:
    rows = re.findall(r"^\| (`[^|]*) \| [^|]*\|$", REFERENCE, re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}

    assert {field.name for field in fields(llm_chat.ChatOptions)} <= documented


EVENTS: Final = (
    llm_chat.TextEvent, llm_chat.ReasoningEvent, llm_chat.ToolCallStart, llm_chat.ToolCallResult,
    llm_chat.Retry, llm_chat.TokenLimitWarning, llm_chat.ErrorEvent, llm_chat.TurnComplete,
    llm_chat.Finish,
)  # fmt: skip


@each_row("event", EVENTS)
def test_every_event_has_a_row_with_its_fields(event: type) -> None:
    [cell] = re.findall(rf"^\| `{event.__name__}` \| ([^|]*) \|", REFERENCE, re.MULTILINE)

    assert set(re.findall(r"`(\w+)`", cell)) >= {field.name for field in fields(event)}


@each_row("name", llm_chat.providers_from_environment({}).list())
def test_every_provider_has_a_row(name: str) -> None:
    assert re.search(rf"^\| [^|]*`{name}`", REFERENCE, re.MULTILINE)


def test_every_error_code_has_a_row() -> None:
    package = Path(llm_chat.__file__).parent
    sources = "".join(path.read_text("utf-8") for path in package.glob("*.py"))
    codes = set(re.findall(r'"([A-Z]+_[A-Z]+|TIMEOUT)"', sources))

    assert codes >= {"CONNECTION_FAILED", "TIMEOUT", "NO_BODY", "NOT_REPRESENTABLE"}
    assert codes <= set(re.findall(r"^\| `(\w+)` \|", REFERENCE, re.MULTILINE))
