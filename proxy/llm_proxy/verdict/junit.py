"""The verdict as JUnit XML, which most CI services show: a test case a rule and request.

A finding of the chosen level or above is a failure; a milder one stands in the output of its
case, which passes.  Where nothing was injected there is one case, which is skipped: several
services take a file without any for a mistake.
"""

from __future__ import annotations

import re
from typing import Final
from xml.etree import ElementTree as ET

from llm_proxy.display import block, counted
from llm_proxy.errors import spelled_out
from llm_proxy.verdict.finding import Case, Finding, Level
from llm_proxy.verdict.judging import Verdict
from llm_proxy.verdict.sentences import line

_SUITE: Final = "llm-proxy verdict"
_NO_XML: Final = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot have, not even escaped."""

NOTHING: Final = "nothing was injected: nothing to judge"


def junit(it: Verdict, level: Level) -> bytes:
    """The XML of a verdict, UTF-8."""
    counts = {
        "tests": str(len(it.cases) or 1),
        "failures": str(len(it.reaching(level))),
        "errors": "0",
        "skipped": str(int(not it.cases)),
    }
    root = ET.Element("testsuites", {"name": _SUITE, **counts})
    suite = ET.SubElement(root, "testsuite", {"name": _SUITE, **counts})
    for case in it.cases:
        _add(suite, case, level)
    if not it.cases:
        nothing = ET.SubElement(suite, "testcase", _named("verdict", "a client after a fault"))
        ET.SubElement(nothing, "skipped", message=NOTHING)
    ET.indent(root)
    xml: bytes = ET.tostring(root, "utf-8", xml_declaration=True)
    return xml + b"\n"


def _add(suite: ET.Element, case: Case, level: Level) -> None:
    first = case.chain.first
    name = f"{first.method} {first.path}, session {first.session or 'none'}, #{first.number}"
    element = ET.SubElement(suite, "testcase", _named(case.rule.name, name))
    finding = case.finding
    if finding is None:
        return
    message, details = _text(finding.message), _text(_details(case, finding))
    if finding.level.reaches(level):
        kind = f"{case.rule.name}.{finding.level}"
        ET.SubElement(element, "failure", message=message, type=kind).text = details
    else:
        ET.SubElement(element, "system-out").text = f"{finding.level}: {message}\n{details}"


def _named(rule: str, name: str) -> dict[str, str]:
    return {"classname": f"llm-proxy.{rule}", "name": _text(name)}


def _details(case: Case, finding: Finding) -> str:
    seen = counted(len(case.chain.attempts), "attempt")
    lines = [f"{seen}:", *map(line, finding.evidence), f"What to do: {case.rule.advice}."]
    return "\n".join(lines)


def _text(text: str) -> str:
    return _NO_XML.sub(lambda found: spelled_out(found[0]), block(text))
