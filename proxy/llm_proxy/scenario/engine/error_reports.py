"""Final reports of errors: document 000's fallback step and error turn."""

from __future__ import annotations

from typing import Final

from llm_proxy.scenario.documents.document import FinalReportResponse, ScenarioTurn

FINAL_REPORT_CALL_ID: Final = "agent-final-report"
FINAL_REPORT_TOOL: Final = "agent__final_report"


def missing_turn_fallback(turn: int, message: str) -> ScenarioTurn:
    """The fallback step for a turn that the scenario lacks; it has no expectations."""
    return ScenarioTurn(
        turn=turn,
        response=_failure_report(
            "Encountered scenario mismatch.", f"# Scenario Failure\n\n{message}"
        ),
    )


def failed_check_response(message: str) -> FinalReportResponse:
    """The response to a request that fails a check of its scenario."""
    return _failure_report("Scenario validation failed.", f"# Test Harness Error\n\n{message}")


def _failure_report(assistant_text: str, report_content: str) -> FinalReportResponse:
    return FinalReportResponse(
        assistant_text=assistant_text,
        report_content=report_content,
        report_format="markdown",
        status="failure",
    )
