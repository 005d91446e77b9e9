"""The pages that list dialects and providers agree with the code."""

from __future__ import annotations

from pathlib import Path

import dialect_capabilities
from case_tables import each_row
from llm_proxy import dialects
from llm_proxy.dialects.openai.family import VARIANT_BY_PROVIDER
from llm_proxy.providers import PROVIDERS

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "reference" / "dialects.md").read_text()


def test_the_page_ends_with_the_generated_table() -> None:
    assert PAGE.endswith(f"\n{dialect_capabilities.summary_table()}"), (
        "PYTHONPATH=proxy:tests python tests/dialect_capabilities.py prints the table"
    )


def test_the_table_of_all_forms_is_current() -> None:
    assert dialect_capabilities.FORMS_FILE.read_text() == dialect_capabilities.forms_table(), (
        "PYTHONPATH=proxy:tests python tests/dialect_capabilities.py writes the table"
    )


@each_row("name", [dialect.name for dialect in dialects.DIALECTS])
def test_every_dialect_has_its_row(name: str) -> None:
    assert f"`{name}`" in PAGE.split("## OpenAI-compatible")[0]


@each_row("name", VARIANT_BY_PROVIDER)
def test_every_provider_variant_has_its_row(name: str) -> None:
    assert f"\n| `{name}` | " in PAGE


@each_row("name", [provider.name for provider in PROVIDERS])
def test_every_provider_has_its_row(name: str) -> None:
    server_page = (DOCS / "reference" / "server.md").read_text()
    rows = [
        line
        for line in server_page.split("## Providers")[1].split("###")[0].splitlines()
        if line.startswith("| ")
    ]

    assert any(f"`{name}`" in row.split(" | ")[0] for row in rows), (
        "add the provider's row to docs/reference/server.md"
    )


@each_row("dialect", dialects.chat_dialects().values())
def test_the_scenarios_page_names_the_key_of_its_metadata(dialect: dialects.Dialect) -> None:
    sentence = (
        (DOCS / "reference" / "scenarios.md").read_text().split("Values in `provider_metadata`")[1]
    )

    assert f"`{dialect.metadata_names.read_keys[0]}`" in sentence.partition(" are sent only in ")[0]
