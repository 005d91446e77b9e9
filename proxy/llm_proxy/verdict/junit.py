"""The verdict as JUnit XML: one test case per rule and request.

A finding of the chosen level or above is a failure; a milder one stands in the output of its
case, which passes.  Where nothing was injected there is one case, which is skipped: several
services take a file without any for a mistake.
"""

from __future__ import annotations

import re
from typing import Final
from xml.etree import ElementTree as ET

from llm_proxy.display import count_noun, escape_block
from llm_proxy.errors import escape_character
from llm_proxy.verdict.attempt_descriptions import evidence_line
from llm_proxy.verdict.finding import FindingLevel, JudgedCase, VerdictFinding
from llm_proxy.verdict.judging import RunVerdict

_SUITE: Final = "llm-proxy verdict"
_NO_XML: Final = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot have, not even escaped."""

NOTHING: Final = "nothing was injected: nothing to judge"


def junit_xml(run_verdict: RunVerdict, level: FindingLevel) -> bytes:
    """The XML of a verdict, UTF-8."""
    counts = {
        "tests": str(len(run_verdict.cases) or 1),
        "failures": str(len(run_verdict.findings_at_least(level))),
        "errors": "0",
        "skipped": str(int(not run_verdict.cases)),
    }
    root = ET.Element("testsuites", {"name": _SUITE, **counts})
    suite = ET.SubElement(root, "testsuite", {"name": _SUITE, **counts})
    for case in run_verdict.cases:
        _add_case(suite, case, level)
    if not run_verdict.cases:
        nothing = ET.SubElement(suite, "testcase", _test_name("verdict", "a client after a fault"))
        ET.SubElement(nothing, "skipped", message=NOTHING)
    ET.indent(root)
    xml: bytes = ET.tostring(root, "utf-8", xml_declaration=True)
    return xml + b"\n"


def _add_case(suite: ET.Element, case: JudgedCase, level: FindingLevel) -> None:
    first = case.chain.first_attempt
    name = f"{first.method} {first.path}, session {first.session or 'none'}, #{first.number}"
    element = ET.SubElement(suite, "testcase", _test_name(case.rule.name, name))
    finding = case.finding
    if finding is None:
        return
    message, details = _xml_text(finding.message), _xml_text(_case_details(case, finding))
    if finding.level.is_at_least(level):
        kind = f"{case.rule.name}.{finding.level}"
        ET.SubElement(element, "failure", message=message, type=kind).text = details
    else:
        ET.SubElement(element, "system-out").text = f"{finding.level}: {message}\n{details}"


def _test_name(rule: str, name: str) -> dict[str, str]:
    return {"classname": f"llm-proxy.{rule}", "name": _xml_text(name)}


def _case_details(case: JudgedCase, finding: VerdictFinding) -> str:
    seen = count_noun(len(case.chain.attempts), "attempt")
    lines = [f"{seen}:", *map(evidence_line, finding.evidence), f"What to do: {case.rule.advice}."]
    return "\n".join(lines)


def _xml_text(text: str) -> str:
    return _NO_XML.sub(lambda found: escape_character(found[0]), escape_block(text))
