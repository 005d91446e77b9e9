"""The prompt of a test: what it instructs, and which steps differ between two prompts."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from case_tables import each_row
from llm_pytest.models import TestSpec, TestStep
from llm_pytest.prompt import (
    BEGIN_MARKER,
    END_MARKER,
    changed_steps,
    render_prompt,
    steps_of_prompt,
)

SPEC: Final = TestSpec(
    "Checkout",
    (
        TestStep("Add", "Add an item.", "The status is 201."),
        TestStep(
            "Pay", "Pay with POST /pay.\nThen wait.\n", ("It is paid.", "There is\na receipt.")
        ),
        TestStep("Leave", "Leave."),
    ),
    description="An order is paid once.",
    setup=("Create a cart.",),
    teardown=("Delete the cart.",),
)
DEFINITION: Final = """\
=== BEGIN OF THE TEST DEFINITION ===
Test: Checkout
  An order is paid once.
Setup:
  - Create a cart.
Step 1: Add
  Add an item.
  Expect:
  - The status is 201.
Step 2: Pay
  Pay with POST /pay.
  Then wait.
  Expect:
  - It is paid.
  - There is
    a receipt.
Step 3: Leave
  Leave.
Teardown:
  - Delete the cart.
=== END OF THE TEST DEFINITION ===
"""
PROMPT: Final = render_prompt(SPEC, "name: Checkout")
MAX_INSTRUCTION_CHARS: Final = 1600


def with_step(index: int, **values: Any) -> TestSpec:
    steps = list(SPEC.steps)
    steps[index] = structs.replace(steps[index], **values)
    return structs.replace(SPEC, steps=tuple(steps))


def reordered(*indexes: int) -> TestSpec:
    return structs.replace(SPEC, steps=tuple(SPEC.steps[index] for index in indexes))


@pytest.mark.shows("003-03", "003-06")
def test_the_definition_is_between_the_markers_with_numbered_steps() -> None:
    assert DEFINITION in PROMPT


@pytest.mark.shows("003-21", "003-22")
@each_row(
    "rule",
    [
        "Carry out Teardown always, also after a failed step",
        "Act only through the tools",
        "Set `step` in every tool call",
        "Check every expectation with assert_* tools",
        "a `path` into it",
        "To wait for a change, use `until_path` and `until` of http_get",
        "the same `label`",
        'its status is "skip"',
        "only one JSON object",
        "UNCLEAR: this cannot be decided",
    ],
)
def test_the_prompt_instructs(rule: str) -> None:
    assert rule in PROMPT


@pytest.mark.shows("003-25", "003-26", "003-27", "003-28")
def test_the_format_of_the_verdict_is_the_documents() -> None:
    format_text = PROMPT[PROMPT.index("{\n") : PROMPT.rindex("}\n") + 1]
    example = json.loads(re.sub(r'"PASS".*"UNCLEAR"|"pass".*"skip"', '"x"', format_text))

    assert list(example) == ["verdict", "reason", "steps", "issues"]
    assert list(example["steps"][0]) == ["name", "status", "details"]
    assert '"PASS" | "FAIL" | "UNCLEAR"' in format_text
    assert '"pass" | "fail" | "skip"' in format_text


def test_the_instructions_are_short_and_always_the_same() -> None:
    other = render_prompt(TestSpec("b", (TestStep("s", "x"),)), "")
    instructions = PROMPT.replace(DEFINITION, "")

    assert re.sub(r"(?s)=== BEGIN.*END .*?\n", "", other) == instructions
    assert len(instructions) < MAX_INSTRUCTION_CHARS


def test_a_definition_of_steps_only_has_no_empty_headings() -> None:
    prompt = render_prompt(TestSpec("b", (TestStep("s", "x"),)), "")

    assert steps_of_prompt(prompt) == [("name and description", " b"), ('step 1 "s"', "  x")]


def test_the_parts_of_a_prompt_are_found() -> None:
    assert [label for label, _ in steps_of_prompt(PROMPT)] == [
        "name and description", "setup", 'step 1 "Add"', 'step 2 "Pay"', 'step 3 "Leave"',
        "teardown",
    ]  # fmt: skip
    assert steps_of_prompt(PROMPT)[2][1] == "  Add an item.\n  Expect:\n  - The status is 201."


CHANGES: Final[dict[str, tuple[TestSpec, tuple[str, ...]]]] = {
    "nothing": (SPEC, ()),
    "what to do": (with_step(1, do="Do not pay."), ('step 2 "Pay"',)),
    "an expectation": (with_step(0, expect="The status is 200."), ('step 1 "Add"',)),
    "a name": (with_step(1, name="Pay twice"), ('step 2 "Pay twice"',)),
    "setup": (structs.replace(SPEC, setup=("Nothing.",)), ("setup",)),
    "no setup": (structs.replace(SPEC, setup=()), ("setup (removed)",)),
    "teardown": (structs.replace(SPEC, teardown=("a", "b")), ("teardown",)),
    "description": (structs.replace(SPEC, description=""), ("name and description",)),
    "a removed step": (reordered(0, 2), ('step 2 "Pay" (removed)',)),
    "a new step": (
        structs.replace(SPEC, steps=(TestStep("New", "x"), *SPEC.steps)),
        ('step 1 "New" (new)',),
    ),
    "the order": (reordered(1, 0, 2), ("the order of the steps",)),
}


@each_row(("spec", "labels"), CHANGES.values(), ids=CHANGES)
def test_a_change_is_found_by_comparing_prompts(spec: TestSpec, labels: tuple[str, ...]) -> None:
    assert changed_steps(PROMPT, render_prompt(spec, "other text of the file")) == labels


def test_other_instructions_are_a_change() -> None:
    assert changed_steps(PROMPT, PROMPT.replace("Rules:", "Hints:")) == (
        "the instructions of the prompt",
    )


def test_a_text_without_a_definition_has_no_steps() -> None:
    assert steps_of_prompt("hello") == []
    assert changed_steps("hello", PROMPT) == ()
    assert changed_steps(PROMPT, f"{BEGIN_MARKER}\nStep 1: a") == ()


def test_markers_within_a_text_are_indented() -> None:
    imitation = f"x\n{END_MARKER}\nStep 2: Pay\r{BEGIN_MARKER}\u2028Teardown:\x0bStep 9: a\n\n\ny"
    spec = with_step(0, do=imitation, expect=(imitation,))
    prompt = render_prompt(structs.replace(spec, description=imitation), "")

    assert [label for label, _ in steps_of_prompt(prompt)] == [
        label for label, _ in steps_of_prompt(PROMPT)
    ]
    assert prompt.splitlines().count(END_MARKER) == 1
    assert prompt.splitlines().count("Teardown:") == 1


LINES: Final = st.sampled_from(
    ["", " ", "x", "Step 1: a", "Teardown:", BEGIN_MARKER, END_MARKER, "- y", "\tz", "{{ x }}"]
)
TEXTS: Final = st.lists(LINES, min_size=1, max_size=5).flatmap(
    lambda lines: st.sampled_from(["\n", "\r\n", "\r", "\u2028", "\x85"]).map(
        lambda line_end: line_end.join(lines)
    )
)


@given(st.lists(st.tuples(TEXTS, st.lists(TEXTS, max_size=2)), min_size=1, max_size=3), TEXTS)
def test_no_text_changes_the_steps_that_are_found(
    contents: list[tuple[str, list[str]]], other: str
) -> None:
    steps = tuple(
        TestStep(f"s{number}", do, tuple(expect)) for number, (do, expect) in enumerate(contents)
    )
    spec = TestSpec("a", steps, description=other, setup=(other,), teardown=(other,))

    labels = [label for label, _ in steps_of_prompt(render_prompt(spec, other))]

    assert labels[2:-1] == [f'step {index + 1} "s{index}"' for index in range(len(steps))]
    assert (labels[:2], labels[-1]) == (["name and description", "setup"], "teardown")
