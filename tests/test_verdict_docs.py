"""docs/reference/verdict.md describes every rule, its levels, and the document."""

from __future__ import annotations

import re
from pathlib import Path

from case_tables import each_row
from journal_documents import finding_lines, judge_entries, refused_entry, request_entry
from llm_proxy.verdict.findings import FindingLevel
from llm_proxy.verdict.judging import verdict_document
from llm_proxy.verdict.rules import RULES
from test_verdict_rules import TABLES

PAGE = (Path(__file__).parents[1] / "docs" / "reference" / "verdict.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"(?ms)^### ([a-z-]+)$(.*?)(?=^##)", PAGE))
EXAMPLE_FINDINGS = re.findall(r"(?m)^(error|warning|note) +([a-z-]+): (.+)$", PAGE)


def test_every_rule_has_its_section_in_the_order_of_the_rules() -> None:
    assert list(SECTIONS) == [rule.name for rule in RULES]


@each_row("rule", [item.name for item in RULES])
def test_the_section_of_a_rule_names_the_levels_that_it_has(rule: str) -> None:
    findings = [line for _, expected in TABLES[rule].values() for line in expected.splitlines()]
    levels = {line.partition(": ")[0].partition(", ")[2] for line in findings if rule in line}
    assert set(re.findall(r"(?m)^- `(\w+)`:", SECTIONS[rule])) == levels


def without_fault(finding: str) -> str:
    """A finding without the fault that it names."""
    return finding.partition(" (fault ")[0]


def test_the_examples_on_the_page_are_real_findings() -> None:
    early = finding_lines(
        judge_entries(
            refused_entry(1, 1200.0, 429, retry_after_ms=2000.0), request_entry(2, 1500.0)
        )
    )
    expected_findings = [lines for table in TABLES.values() for _, lines in table.values()]
    known = {
        without_fault(line) for lines in (*expected_findings, *early) for line in lines.splitlines()
    }
    shown = {without_fault(f"{rule}, {level}: {text}") for level, rule, text in EXAMPLE_FINDINGS}
    assert len(shown) == len(RULES) + 1
    assert shown - known == set()


def test_every_level_and_field_is_described() -> None:
    document = verdict_document(judge_entries(refused_entry(1)))
    [finding] = document["findings"]
    fields = {*document, *finding, *finding["evidence"][0], *FindingLevel}
    assert [field for field in fields if f"`{field}`" not in PAGE] == []
