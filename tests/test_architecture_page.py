"""docs/explanation/architecture.md: the files, functions and classes that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "explanation" / "architecture.md").read_text("utf-8")
SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
CASES = (
    "Every request", "`record`", "A replay", "A miss", "A scenario turn", "A test",
    "A conversation", "An LLM test", "A fault",
)  # fmt: skip
PACKAGES = {"A conversation": "llm_chat", "An LLM test": "llm_pytest"}
"""The packages of cases whose files are not in `llm_proxy`."""


@pytest.mark.parametrize("title", CASES)
def test_the_steps_of_a_case_name_existing_code(title: str) -> None:
    [section] = [text for text in SECTIONS if text.startswith(f"{title}\n")]
    steps = re.findall(r"`(\w+)` \(`([\w/]+\.py)`\)", section)

    assert len(steps) == section.count(".py`") >= 4
    for name, file in steps:
        package = PACKAGES.get(title, "llm_proxy")
        source = (ROOT / "proxy" / package / file).read_text("utf-8")
        assert re.search(rf"\b(?:def|class) {name}\b", source), (file, name)
