"""docs/dialects.md agrees with the code."""

from __future__ import annotations

from pathlib import Path

import pytest

import dialect_capabilities
from llm_proxy import dialects
from llm_proxy.dialects.openai.provider_variants import VARIANT_BY_PROVIDER

PAGE = (Path(__file__).parents[1] / "docs" / "dialects.md").read_text()


def test_the_page_ends_with_the_generated_table() -> None:
    assert PAGE.endswith(f"\n{dialect_capabilities.capability_table()}"), (
        "PYTHONPATH=proxy:tests python tests/dialect_capabilities.py prints the table"
    )


@pytest.mark.parametrize("name", [dialect.name for dialect in dialects.DIALECTS])
def test_every_dialect_has_its_row(name: str) -> None:
    assert f"`{name}`" in PAGE.split("## The family")[0]


@pytest.mark.parametrize("name", VARIANT_BY_PROVIDER)
def test_every_provider_variant_has_its_row(name: str) -> None:
    assert f"\n| `{name}` | " in PAGE
