"""Reads the verdict of a model's last response, and checks it against the evidence.

Source: owner's document 003, "Verdict Format".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from llm_proxy.display import count_with_noun
from llm_proxy.errors import printable_excerpt
from llm_pytest.errors import UnreadableVerdict
from llm_pytest.evidence import ToolCallRecord, decided_assertions
from llm_pytest.models import StepResult, TestSpec, Verdict

_MAX_CHARS: Final = 200_000
"""The longest response in which a verdict is searched."""
_MAX_OBJECTS: Final = 1_000
_MAX_SHOWN_CHARS: Final = 200


def parse_verdict(text: str) -> Verdict:
    """The verdict in a response: the one JSON object in it with the member `verdict`.

    Text around the object, such as a code fence, is ignored.  Raises `UnreadableVerdict` if there
    is none, if there are different ones, and if it is invalid.
    """
    if len(text) > _MAX_CHARS:
        raise UnreadableVerdict(f"the last response has more than {_MAX_CHARS} characters")
    found: list[dict[str, Any]] = []
    for document in _json_objects(text):
        if "verdict" in document and document not in found:
            found.append(document)
    if not found:
        shown = shortened(" ".join(text.split()))
        content = f": {shown}" if shown else "; it is empty"
        raise UnreadableVerdict(
            f"the last response contains no JSON object with a verdict{content}"
        )
    if len(found) > 1:
        names = ", ".join(shortened(str(document["verdict"])) for document in found)
        raise UnreadableVerdict(f"the last response contains {len(found)} verdicts: {names}")
    document = found[0]
    if isinstance(name := document["verdict"], str):
        document["verdict"] = name.strip().upper()
    try:
        return msgspec.convert(document, Verdict)
    except msgspec.ValidationError as error:
        raise UnreadableVerdict(f"the verdict is invalid: {error}") from None


def checked_verdict(verdict: Verdict, calls: Sequence[ToolCallRecord], spec: TestSpec) -> Verdict:
    """The verdict that counts: a PASS that its evidence contradicts is none.

    It is FAIL if an assertion is decided against it, or if the model reports a step as failed.  It
    is UNCLEAR if the model has called no tool, if it reports a step as skipped, and if it has
    checked nothing in a step with expectations.
    """
    if verdict.verdict != "PASS":
        return verdict
    unmet = [each for each in decided_assertions(calls) if not each.is_as_expected]
    if unmet:
        count = count_with_noun(len(unmet), "assertion")
        reason = f"the model's verdict is PASS, but {count} failed"
        issues = tuple(map(assertion_text, unmet))
        return _changed(verdict, "FAIL", reason, issues)
    if failed := [step.name for step in verdict.steps if step.status == "fail"]:
        reason = f"the model's verdict is PASS, but it reports that {failed[0]} failed"
        return _changed(verdict, "FAIL", reason, ())
    doubt = ""
    if not calls:
        doubt = "it called no tool"
    elif skipped := [step.name for step in verdict.steps if _is_skipped(step, spec)]:
        doubt = f"it reports that {skipped[0]} was skipped"
    elif unchecked := _unchecked_steps(calls, spec):
        doubt = f"it has checked nothing in {', '.join(unchecked)}"
    if doubt:
        return _changed(verdict, "UNCLEAR", f"the model's verdict is PASS, but {doubt}", ())
    return verdict


def _is_skipped(result: StepResult, spec: TestSpec) -> bool:
    """Whether a step is reported as skipped; a teardown, for example, is no step."""
    return result.status == "skip" and any(step.name in result.name for step in spec.steps)


def _unchecked_steps(calls: Sequence[ToolCallRecord], spec: TestSpec) -> list[str]:
    checked = {call.step_number(spec) for call in calls if call.is_check}
    return [
        step_label(number, spec)
        for number, step in enumerate(spec.steps, 1)
        if step.expectations and number not in checked
    ]


def step_label(number: int, spec: TestSpec) -> str:
    """A step in messages, such as `step 2 "Pay"`; `number` is from 1."""
    return f'step {number} "{spec.steps[number - 1].name}"'


def too_many_turns(spec: TestSpec) -> UnreadableVerdict:
    """The error of a model that has not returned a verdict within its responses."""
    limit = count_with_noun(spec.max_turns, "response")
    return UnreadableVerdict(f"no verdict within {limit}; the limit is max_turns of the definition")


def assertion_text(call: ToolCallRecord) -> str:
    """A failed assertion in one line: what was compared."""
    label = f" ({call.label})" if call.label else ""
    if call.expect_failure and call.has_passed:
        return f"{call.tool}{label} passed, but it must fail: {shortened(json_text(call.result))}"
    return f"{call.tool}{label} failed: {shortened(json_text(call.result))}"


def json_text(value: Any) -> str:
    """A JSON value in one line."""
    return json.dumps(value, ensure_ascii=False)


def shortened(text: str) -> str:
    """A text that fits in a line of a report, without control characters."""
    return printable_excerpt(text, _MAX_SHOWN_CHARS)


def _changed(verdict: Verdict, name: Any, reason: str, issues: tuple[str, ...]) -> Verdict:
    reason = f"{reason}; its reason: {verdict.reason}" if verdict.reason else reason
    return msgspec.structs.replace(
        verdict, verdict=name, reason=reason, issues=(*issues, *verdict.issues)
    )


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object.  Raises `UnreadableVerdict` if it has two verdicts."""
    if sum(name == "verdict" for name, _ in members) > 1:
        raise UnreadableVerdict("the last response contains an object with two verdicts")
    return dict(members)


def _json_objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text that are within no other."""
    decoder = json.JSONDecoder(object_pairs_hook=_object)
    position = text.find("{")
    for _ in range(_MAX_OBJECTS):
        if position < 0:
            return
        try:
            document, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            yield document
        position = text.find("{", end)
