"""Final reports of errors: document 000's fallback step and error turn."""

from __future__ import annotations

from typing import Final

from llm_proxy.scenario.documents.document import FinalReportResponse, ScenarioTurn

CALL_ID: Final = "agent-final-report"
TOOL: Final = "agent__final_report"


def mismatch_step(turn: int, message: str) -> ScenarioTurn:
    """What answers a turn that the scenario does not have; it expects nothing."""
    return ScenarioTurn(
        turn=turn,
        response=_failure_report(
            "Encountered scenario mismatch.", f"# Scenario Failure\n\n{message}"
        ),
    )


def failed_check_report(message: str) -> FinalReportResponse:
    """What answers a request that is not as the scenario expects it."""
    return _failure_report("Scenario validation failed.", f"# Test Harness Error\n\n{message}")


def _failure_report(text: str, content: str) -> FinalReportResponse:
    return FinalReportResponse(
        assistant_text=text, report_content=content, report_format="markdown", status="failure"
    )
