"""docs/faults.md is what the faults say of themselves, and nothing older."""

from __future__ import annotations

import re

import pytest

from fault_page import FRAME, PAGE, page
from llm_proxy.faults.fault_record import FaultEffect
from llm_proxy.faults.grammar import parse_rule
from llm_proxy.faults.grammar.locations import PLACES
from llm_proxy.faults.grammar.selectors import AUDIENCES
from llm_proxy.faults.grammar.triggers import OCCASIONS
from llm_proxy.faults.kinds import KINDS

TEXT = PAGE.read_text("utf-8")


def test_the_page_is_up_to_date() -> None:
    assert page() == TEXT, "PYTHONPATH=proxy:tests python tests/fault_page.py > docs/faults.md"


@pytest.mark.parametrize("name", KINDS)
def test_every_fault_has_a_section_with_its_picture_and_its_arguments(name: str) -> None:
    section = TEXT.partition(f"\n### {name}\n")[2].partition("\n### ")[0]

    assert section.count("```") == 2
    assert f"Example: `{KINDS[name].example}`" in section
    assert [
        argument for argument in KINDS[name].arguments if f"| `{argument}` |" not in section
    ] == []


def test_the_frame_tells_the_whole_grammar() -> None:
    frame = FRAME.read_text("utf-8")
    words = [*PLACES, *OCCASIONS, *AUDIENCES]

    assert [word for word in words if not re.search(rf"`{word}=", frame)] == []
    assert [item for item in FaultEffect if f"*{item}*" not in frame] == []


def test_the_rules_that_it_shows_are_rules() -> None:
    rule = re.compile(r"^((?:[a-z-]+)(?:,[a-z-]+=\S+)+)", re.MULTILINE)
    shown = list(rule.findall(FRAME.read_text("utf-8")))

    assert len(shown) >= 5
    assert [parse_rule(item).text for item in shown] == shown


def test_its_links_lead_somewhere() -> None:
    headings = re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    inner = re.findall(r"\]\(#([^)]*)\)", TEXT)
    files = re.findall(r"\]\(([\w-]+\.md)", TEXT)

    assert [item for item in inner if item not in anchors] == []
    assert [file for file in files if not (PAGE.parent / file).exists()] == []
