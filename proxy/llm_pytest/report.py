"""A run of a test as a report for people: steps, failed assertions, issues, what was used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from llm_proxy.display import count_with_noun
from llm_proxy.errors import printable_excerpt
from llm_pytest.errors import ProviderFailed
from llm_pytest.evidence import ToolCallRecord, decided_assertions
from llm_pytest.models import RunUsage, StepResult, TestSpec
from llm_pytest.runner import TestRun
from llm_pytest.verdicts import assertion_text, json_text, shortened, step_label

_MAX_TEXT_CHARS: Final = 2_000
"""The longest text of a model in a report."""


def report_lines(run: TestRun, explanations: Sequence[str] = ()) -> Iterator[str]:
    """The report of a run; `explanations` are why its requests were not replayed."""
    match run.outcome:
        case ProviderFailed() as failure:
            # A request that was not replayed is explained better than by the provider's words.
            yield f"ERROR: {explanations[0] if explanations else _line(str(failure))}"
            explanations = explanations[1:]
            steps: tuple[StepResult, ...] = ()
            issues: tuple[str, ...] = ()
        case verdict:
            yield f"{verdict.verdict}: {_line(verdict.reason) or 'no reason given'}"
            steps, issues = verdict.steps, verdict.issues
    yield from explanations
    yield ""
    if steps:
        yield "steps, as the model reports them:"
        for step in steps:
            yield f"  {step.status:4}  {_line(step.name)}  {_line(step.details)}".rstrip()
    decided = {call.number for call in decided_assertions(run.calls)}
    if run.calls:
        yield "calls:"
        for call in run.calls:
            yield f"  {_call_line(call, run.spec, is_decided=call.number in decided)}"
    if issues:
        yield "issues:"
        yield from (f"  {_line(issue)}" for issue in issues)
    yield usage_text(run, run.usage)


def usage_text(run: TestRun, usage: RunUsage) -> str:
    """What a run has used, or has used when it was recorded, in one line."""
    replayed = "replayed " if run.is_replay else ""
    parts = [run.provider, f"{replayed}{count_with_noun(usage.turns, 'response')}"]
    if usage.input_tokens is not None or usage.output_tokens is not None:
        parts.append(f"{usage.input_tokens or 0:,} input tokens")
        parts.append(f"{usage.output_tokens or 0:,} output tokens")
    if usage.cost_usd is not None:
        parts.append(f"${usage.cost_usd:.4f}")
    return ", ".join([*parts, f"{run.duration_s:.1f} s"])


def call_place(call: ToolCallRecord, spec: TestSpec) -> str:
    """The step of a call as people know it: its number and name."""
    number = call.step_number(spec)
    return shortened(call.step) or "no step" if number is None else step_label(number, spec)


def _line(text: str) -> str:
    """What a model or a provider has written, in one line without control characters."""
    return printable_excerpt(text, _MAX_TEXT_CHARS)


def _call_line(call: ToolCallRecord, spec: TestSpec, *, is_decided: bool) -> str:
    place = call_place(call, spec)
    arguments = ", ".join(f"{name}={json_text(value)}" for name, value in call.arguments.items())
    shown_call = shortened(f"{call.tool}({arguments})")
    if not call.is_assertion:
        return f"{place}: {shown_call} → {shortened(json_text(call.result))}"
    if call.is_as_expected:
        return f"{place}: {shown_call} → passed"
    later = "" if is_decided else ", but a later one with its label counts"
    return f"{place}: {assertion_text(call)}{later}"
