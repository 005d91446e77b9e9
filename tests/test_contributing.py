"""The architecture page: the files and functions that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_way_of_a_replayed_request_names_existing_functions() -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    section = page.partition("## How a replayed request becomes bytes\n")[2].partition("\n## ")[0]
    steps = re.findall(r"`([\w/]+\.py)` `(\w+)`", section)

    assert len(steps) == section.count(".py`") >= 10
    for file, name in steps:
        source = (ROOT / "proxy" / "llm_proxy" / file).read_text()
        assert re.search(rf"\b(?:def|class) {name}\b", source), (file, name)
