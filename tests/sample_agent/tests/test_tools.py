"""The tools, without a model."""

from __future__ import annotations

from typing import Any

import pytest

from assistant.tools import call_tool


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("get_weather", {"city": "Oslo"}, "4 degrees, snow"),
        ("get_weather", {"city": "Atlantis"}, "error: KeyError: 'Atlantis'"),
        ("calculate", {"left": 17, "operator": "*", "right": 3}, "51"),
        ("calculate", {"left": 17}, "error: TypeError: "),
    ],
)
def test_a_tool_returns_a_text(name: str, arguments: dict[str, Any], result: str) -> None:
    assert call_tool(name, arguments).startswith(result)
