"""docs/reference/faults.md is up to date with the fault definitions."""

from __future__ import annotations

import re

from case_tables import each_row
from fault_page import FRAME, PAGE, render_page
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.grammar import LOCATION_PARSERS, SELECTOR_NAMES, TRIGGER_PARSERS, parse_rule
from llm_proxy.faults.kinds import FAULT_KINDS

TEXT = PAGE.read_text("utf-8")


def test_the_page_is_up_to_date() -> None:
    assert render_page() == TEXT, (
        "PYTHONPATH=proxy:tests .venv/bin/python tests/fault_page.py > docs/reference/faults.md"
    )


@each_row("name", FAULT_KINDS)
def test_every_fault_has_a_section_with_its_picture_and_its_arguments(name: str) -> None:
    section = TEXT.partition(f"\n### {name}\n")[2].partition("\n### ")[0]

    assert section.count("```") == 2
    assert f"```\n{FAULT_KINDS[name].example}\n" in section
    assert [
        argument for argument in FAULT_KINDS[name].arguments if f"- `{argument}=`: " not in section
    ] == []


def test_the_frame_documents_the_whole_grammar() -> None:
    frame = FRAME.read_text("utf-8")
    keys = [*LOCATION_PARSERS, *TRIGGER_PARSERS, *SELECTOR_NAMES]

    assert [key for key in keys if not re.search(rf"`{key}=", frame)] == []
    assert [item for item in FaultEffect if f"*{item}*" not in frame] == []


def test_the_rules_that_it_shows_are_rules() -> None:
    rule = re.compile(r"^((?:[a-z-]+)(?:,[a-z-]+=\S+)+)", re.MULTILINE)
    shown = list(rule.findall(FRAME.read_text("utf-8")))

    assert len(shown) >= 5
    assert [parse_rule(item).text for item in shown] == shown


def test_its_links_resolve() -> None:
    headings = re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    linked_anchors = re.findall(r"\]\(#([^)]*)\)", TEXT)
    linked_files = re.findall(r"\]\(([\w-]+\.md)", TEXT)

    assert [item for item in linked_anchors if item not in anchors] == []
    assert [file for file in linked_files if not (PAGE.parent / file).exists()] == []
