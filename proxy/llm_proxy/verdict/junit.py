"""The verdict as JUnit XML: one test case per rule and request.

A finding of the chosen level or above is a failure; a milder one is in the output of its case,
which passes.  Where nothing was injected there is one skipped case: several services treat a file
without any case as an error.
"""

from __future__ import annotations

import re
from typing import Final
from xml.etree import ElementTree as ET

from llm_proxy.display import count_with_noun, escape_block
from llm_proxy.errors import escape_character
from llm_proxy.verdict.findings import FindingLevel
from llm_proxy.verdict.judging import JudgedCase, RunVerdict

_SUITE_NAME: Final = "llm-proxy verdict"
_INVALID_XML_CHARS: Final = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow, not even escaped."""

NOTHING_INJECTED: Final = "no faults were injected"


def junit_xml(run_verdict: RunVerdict, level: FindingLevel) -> bytes:
    """The verdict as JUnit XML, in UTF-8."""
    counts = {
        "tests": str(len(run_verdict.cases) or 1),
        "failures": str(len(run_verdict.cases_at_or_above(level))),
        "errors": "0",
        "skipped": str(int(not run_verdict.cases)),
    }
    root = ET.Element("testsuites", {"name": _SUITE_NAME, **counts})
    suite = ET.SubElement(root, "testsuite", {"name": _SUITE_NAME, **counts})
    for case in run_verdict.cases:
        _add_test_case(suite, case, level)
    if not run_verdict.cases:
        skipped_case = ET.SubElement(
            suite, "testcase", _test_case_attributes("verdict", "client behaviour after a fault")
        )
        ET.SubElement(skipped_case, "skipped", message=NOTHING_INJECTED)
    ET.indent(root)
    xml: bytes = ET.tostring(root, "utf-8", xml_declaration=True)
    return xml + b"\n"


def _add_test_case(suite: ET.Element, case: JudgedCase, level: FindingLevel) -> None:
    first_attempt = case.chain.first_attempt
    name = (
        f"{first_attempt.method} {first_attempt.path}, session "
        f"{first_attempt.session or 'none'}, #{first_attempt.number}"
    )
    element = ET.SubElement(suite, "testcase", _test_case_attributes(case.rule.name, name))
    finding = case.finding
    if finding is None:
        return
    message = _xml_text(finding.message)
    lines = [
        f"{count_with_noun(len(case.chain.attempts), 'attempt')}:",
        *map(str, finding.evidence),
        f"Advice: {case.rule.advice}.",
    ]
    details = _xml_text("\n".join(lines))
    if case.severity >= level.severity:
        failure_type = f"{case.rule.name}.{finding.level}"
        ET.SubElement(element, "failure", message=message, type=failure_type).text = details
    else:
        ET.SubElement(element, "system-out").text = f"{finding.level}: {message}\n{details}"


def _test_case_attributes(rule: str, name: str) -> dict[str, str]:
    return {"classname": f"llm-proxy.{rule}", "name": _xml_text(name)}


def _xml_text(text: str) -> str:
    return _INVALID_XML_CHARS.sub(lambda match: escape_character(match[0]), escape_block(text))
