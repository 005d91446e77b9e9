"""Verdicts are read from responses of any shape, and a PASS needs evidence that agrees."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from llm_proxy.turns import Json
from llm_pytest.errors import UnreadableVerdict
from llm_pytest.evidence import ToolCallRecord, decided_assertions
from llm_pytest.models import StepResult, TestSpec, TestStep, Verdict
from llm_pytest.verdicts import checked_verdict, parse_verdict

PASS = '{"verdict": "PASS", "reason": "all is well"}'
DOCUMENTED = """{
    "verdict": "FAIL",
    "reason": "Brief explanation of the result",
    "steps": [
        {"name": "Step Name", "status": "pass", "details": "What happened"},
        {"name": "Another", "status": "fail", "details": ""},
        {"name": "A third", "status": "skip", "details": ""}
    ],
    "issues": ["List of problems found (if FAIL)"]
}"""


@pytest.mark.shows("003-12", "003-22", "003-25 to 003-28")
def test_the_documented_verdict_is_read_whole() -> None:
    assert parse_verdict(DOCUMENTED) == Verdict(
        "FAIL",
        "Brief explanation of the result",
        (
            StepResult("Step Name", "pass", "What happened"),
            StepResult("Another", "fail"),
            StepResult("A third", "skip"),
        ),
        ("List of problems found (if FAIL)",),
    )


@pytest.mark.parametrize(
    "text",
    [
        PASS,
        f"```json\n{PASS}\n```",
        f"The verdict {{as JSON}} is:\n{PASS}\nThank you {{very}} much.",
        f"{PASS}\n{PASS}",
        '{"reason": "all is well", "verdict": " pass ", "confidence": 0.9}',
        f'{{"status": 200}} {PASS}',
    ],
    ids=["plain", "fenced", "within prose", "the same twice", "lower case", "after other JSON"],
)
def test_a_verdict_is_found_in_what_models_write_around_it(text: str) -> None:
    assert parse_verdict(text) == Verdict("PASS", "all is well")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the last response contains no JSON object with a verdict; it is empty"),
        ("All steps have passed.", "no JSON object with a verdict: All steps have passed."),
        (PASS[:-1], "no JSON object with a verdict"),
        (f'{PASS} {{"verdict": "FAIL"}}', "the last response contains 2 verdicts: PASS, FAIL"),
        ('{"verdict": "FAIL", "verdict": "PASS"}', "contains an object with two verdicts"),
        ('{"verdict": "MAYBE"}', "the verdict is invalid: Invalid enum value 'MAYBE'"),
        ('{"verdict": 1}', "the verdict is invalid: Expected `str`"),
        ('{"verdict": "PASS", "steps": [{"name": "a"}]}', "missing required field `status`"),
        ('{"result": {"verdict": "PASS"}}', "no JSON object with a verdict"),
        ("{" * 100_000, "no JSON object with a verdict"),
        ('{"a":' * 100_000, "has more than 200000 characters"),
        ('{"a":' * 30_000, "no JSON object with a verdict"),
    ],
    ids=[
        "empty", "prose", "half JSON", "two verdicts", "two in one", "another word", "a number",
        "a half step", "nested", "braces", "too long", "deep",
    ],
)  # fmt: skip
def test_a_response_without_one_verdict_is_unreadable(text: str, message: str) -> None:
    with pytest.raises(UnreadableVerdict) as raised:
        parse_verdict(text)

    assert message in str(raised.value)
    assert len(str(raised.value)) < 500


def assertion(
    number: int, *, passed: bool, label: str = "", expect_failure: bool = False
) -> ToolCallRecord:
    result: Json = {"passed": passed, "actual": number}
    return ToolCallRecord(
        number, "assert_equals", {}, result, has_passed=passed, label=label,
        expect_failure=expect_failure,
    )  # fmt: skip


CALL = ToolCallRecord(1, "http_get", {}, {"status": 200}, is_error=False)


WITHOUT_EXPECTATIONS = TestSpec("a test", (TestStep("Look", "Look."),))
SPEC = TestSpec("a test", (TestStep("Look", "Look."), TestStep("Pay", "Pay.", "It is paid.")))


@dataclass(frozen=True)
class Case:
    """The evidence of a test, and the verdict that a PASS becomes."""

    calls: tuple[ToolCallRecord, ...]
    verdict: str
    reason: str = "all is well"
    spec: TestSpec = WITHOUT_EXPECTATIONS


@pytest.mark.parametrize(
    "case",
    {
        "an assertion that passes": Case((CALL, assertion(2, passed=True)), "PASS"),
        "no assertion": Case((CALL,), "PASS"),
        "a tool that failed": Case(
            (ToolCallRecord(1, "http_get", {}, {"error": "refused"}, is_error=True),), "PASS"
        ),
        "an assertion that fails": Case(
            (assertion(1, passed=True), assertion(2, passed=False)),
            "FAIL",
            "the model's verdict is PASS, but 1 assertion failed; its reason: all is well",
        ),
        "a labelled assertion that passes in the end": Case(
            (assertion(1, passed=False, label="done"), assertion(2, passed=True, label="done")),
            "PASS",
        ),
        "a labelled assertion that fails in the end": Case(
            (assertion(1, passed=True, label="done"), assertion(2, passed=False, label="done")),
            "FAIL",
            "the model's verdict is PASS, but 1 assertion failed; its reason: all is well",
        ),
        "an assertion that must fail": Case(
            (assertion(1, passed=False, expect_failure=True),), "PASS"
        ),
        "an assertion that must fail and passes": Case(
            (assertion(1, passed=True, expect_failure=True),),
            "FAIL",
            "the model's verdict is PASS, but 1 assertion failed; its reason: all is well",
        ),
        **{
            f"a step that is checked as {step}": Case(
                (replace(assertion(1, passed=True), step=step),), "PASS", spec=SPEC
            )
            for step in (
                "2",
                "Step 2",
                "#2",
                "2. Pay",
                "2.0",
                "step 2: Pay",
                "Pay",
                "pay",
                "step_2",
                "(2)",
            )
        },
        "a step that is checked by a plugin": Case(
            (replace(CALL, tool="shop_pay", step="2"),), "PASS", spec=SPEC
        ),
        **{
            name: Case(
                (call,),
                "UNCLEAR",
                'the model\'s verdict is PASS, but it has checked nothing in step 2 "Pay"; its '
                "reason: all is well",
                SPEC,
            )
            for name, call in {
                "a step with a request only": replace(CALL, step="2"),
                "a step with an error only": replace(
                    CALL, tool="shop_pay", step="2", is_error=True
                ),
                "an assertion in a step that is not there": replace(
                    assertion(1, passed=True), step="3"
                ),
                "an assertion in another step": replace(assertion(1, passed=True), step="1"),
                "an assertion in no step": replace(assertion(1, passed=True), step="banana"),
            }.items()
        },
        "no call": Case(
            (),
            "UNCLEAR",
            "the model's verdict is PASS, but it called no tool; its reason: all is well",
        ),
    }.items(),
    ids=lambda case: case[0],
)
def test_a_pass_is_checked_against_the_evidence(case: tuple[str, Case]) -> None:
    _, row = case

    checked = checked_verdict(Verdict("PASS", "all is well"), row.calls, row.spec)

    assert (checked.verdict, checked.reason) == (row.verdict, row.reason)


def test_a_pass_with_a_failed_step_is_a_fail() -> None:
    verdict = Verdict("PASS", "", (StepResult("Pay", "fail"),))

    assert checked_verdict(verdict, [CALL], WITHOUT_EXPECTATIONS) == Verdict(
        "FAIL", "the model's verdict is PASS, but it reports that Pay failed", verdict.steps
    )


def test_a_pass_with_a_skipped_step_is_unclear() -> None:
    verdict = Verdict("PASS", "", (StepResult("Step 1: Look", "skip"),))
    reason = "the model's verdict is PASS, but it reports that Step 1: Look was skipped"

    assert checked_verdict(verdict, [CALL], WITHOUT_EXPECTATIONS) == Verdict(
        "UNCLEAR", reason, verdict.steps
    )


def test_a_teardown_that_is_reported_as_skipped_is_no_step() -> None:
    verdict = Verdict("PASS", "", (StepResult("Teardown", "skip"),))

    assert checked_verdict(verdict, [CALL], WITHOUT_EXPECTATIONS) == verdict


@pytest.mark.parametrize("verdict", [Verdict("FAIL", "broken"), Verdict("UNCLEAR", "no idea")])
def test_another_verdict_stays_whatever_the_evidence_is(verdict: Verdict) -> None:
    assert checked_verdict(verdict, [assertion(1, passed=True)], SPEC) == verdict


def test_the_issues_name_what_was_compared() -> None:
    verdict = Verdict("PASS", "", (), ("a remark",))

    checked = checked_verdict(
        verdict,
        [
            assertion(1, passed=False, label="total"),
            assertion(2, passed=True, expect_failure=True),
        ],
        SPEC,
    )

    assert checked.issues == (
        'assert_equals (total) failed: {"passed": false, "actual": 1}',
        'assert_equals passed, but it must fail: {"passed": true, "actual": 2}',
        "a remark",
    )


def test_of_assertions_with_a_label_the_last_one_is_decided_in_its_place() -> None:
    calls = [
        assertion(1, passed=False, label="a"),
        assertion(2, passed=False),
        CALL,
        assertion(3, passed=True, label="a"),
        assertion(4, passed=False),
    ]

    assert [call.number for call in decided_assertions(calls)] == [2, 3, 4]
