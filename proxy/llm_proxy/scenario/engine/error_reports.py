"""Final reports that say what went wrong: document 000's fallback step and error turn."""

from __future__ import annotations

from typing import Final

from llm_proxy.scenario.documents.document import FinalReport, Step

CALL_ID: Final = "agent-final-report"
TOOL: Final = "agent__final_report"


def mismatch(turn: int, message: str) -> Step:
    """What answers a turn that the scenario does not have; it expects nothing."""
    return Step(
        turn=turn,
        response=_failure("Encountered scenario mismatch.", f"# Scenario Failure\n\n{message}"),
    )


def failed_check(message: str) -> FinalReport:
    """What answers a request that is not as the scenario expects it."""
    return _failure("Scenario validation failed.", f"# Test Harness Error\n\n{message}")


def _failure(said: str, content: str) -> FinalReport:
    return FinalReport(
        assistant_text=said, report_content=content, report_format="markdown", status="failure"
    )
