"""docs/dialects.md says what is so."""

from __future__ import annotations

from pathlib import Path

import pytest

import sayings
from llm_proxy import dialects
from llm_proxy.dialects.openai.family import FAMILY

PAGE = (Path(__file__).parents[1] / "docs" / "dialects.md").read_text()


def test_the_page_says_what_each_manner_of_answering_has_words_for() -> None:
    assert PAGE.endswith(f"\n{sayings.table()}"), (
        "PYTHONPATH=proxy:tests python tests/sayings.py prints the table"
    )


@pytest.mark.parametrize("name", [dialect.name for dialect in dialects.DIALECTS])
def test_every_dialect_has_its_row(name: str) -> None:
    assert f"`{name}`" in PAGE.split("## The family")[0]


@pytest.mark.parametrize("name", FAMILY)
def test_every_member_of_the_family_has_its_row(name: str) -> None:
    assert f"\n| `{name}` | " in PAGE
