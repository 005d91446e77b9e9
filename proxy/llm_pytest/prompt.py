"""The prompt of a test, and which steps differ between two prompts.

The definition is between two markers.  Only the lines of the prompt itself begin in the first
column there: every line of a text of the definition is indented, so no text can imitate a heading
or a marker.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from llm_pytest.extras import needs_extra
from llm_pytest.models import TestSpec

if TYPE_CHECKING:
    import jinja2

TEMPLATE_NAME: Final = "test_prompt.jinja2"
BEGIN_MARKER: Final = "=== BEGIN OF THE TEST DEFINITION ==="
END_MARKER: Final = "=== END OF THE TEST DEFINITION ==="
INSTRUCTIONS: Final = "the instructions of the prompt"
"""The label of everything outside the markers."""
ORDER: Final = "the order of the steps"

_LINE_END: Final = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_STEP: Final = re.compile(r"Step (\d+): (.*)")
_LABELS_BY_HEADING: Final = {
    "Test": "name and description",
    "Setup": "setup",
    "Teardown": "teardown",
}


def render_prompt(spec: TestSpec, yaml_content: str) -> str:
    """The prompt for a test whose texts are resolved.

    The template gets `spec`, and the text of the file as `yaml_content`.  Raises `UsageError` if
    Jinja2 is not installed.
    """
    return _template().render(
        spec=spec,
        yaml_content=yaml_content,
        begin_marker=BEGIN_MARKER,
        end_marker=END_MARKER,
    )


@cache
def _template() -> jinja2.Template:
    with needs_extra():
        import jinja2  # noqa: PLC0415 # the markers are also needed where nothing is rendered
    environment = jinja2.Environment(
        autoescape=False,  # noqa: S701 # the prompt is not HTML
        loader=jinja2.PackageLoader("llm_pytest"),
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"one_line": one_line, "block": _block, "item": _item}
    return environment.get_template(TEMPLATE_NAME)


def one_line(text: str) -> str:
    """A name with single spaces, as the prompt has it."""
    return " ".join(text.split())


def _block(text: str, indent: int) -> str:
    """A text with each line indented, without empty lines around it."""
    lines = _LINE_END.split(text.rstrip())
    while len(lines) > 1 and not lines[0].strip():
        del lines[0]
    return "\n".join(" " * indent + line if line else "" for line in lines)


def _item(text: str, indent: int) -> str:
    """A text whose lines are indented, except the first one: it follows the mark of an item."""
    return _block(text, indent)[indent:]


class _Section(NamedTuple):
    label: str
    name: str
    """The name of a step; the label of another section."""
    text: str
    number: int = 0
    """Of a step."""


def steps_of_prompt(prompt: str) -> list[tuple[str, str]]:
    """The parts of the definition in a prompt: labels such as `step 2 "Pay"`, and their texts.

    The other labels are `name and description`, `setup` and `teardown`.  Empty if the prompt has
    no definition.
    """
    return [(section.label, section.text) for section in _split(prompt)[0]]


def changed_steps(old_prompt: str, new_prompt: str) -> tuple[str, ...]:
    """The labels of the parts that differ between two prompts, in the order of the new one.

    Steps are compared by their names; a step that is only in one prompt is `(new)` or `(removed)`.
    Empty if the prompts are equal, or if one of them has no definition.
    """
    old_sections, old_instructions = _split(old_prompt)
    new_sections, new_instructions = _split(new_prompt)
    if not old_sections or not new_sections:
        return ()
    old_by_name = {(section.number > 0, section.name): section for section in old_sections}
    new_names = {(section.number > 0, section.name) for section in new_sections}
    replaced = {
        section.number: section
        for name, section in old_by_name.items()
        if section.number and name not in new_names
    }
    changed: list[str] = []
    for section in new_sections:
        old = old_by_name.get((section.number > 0, section.name))
        if old is None and replaced.pop(section.number, None) is not None:
            changed.append(section.label)  # a step with another name
        elif old is None:
            changed.append(f"{section.label} (new)")
        elif old.text != section.text:
            changed.append(section.label)
    changed += [
        f"{section.label} (removed)"
        for name, section in old_by_name.items()
        if name not in new_names and (not section.number or section.number in replaced)
    ]
    if not changed and [section.name for section in old_sections] != [
        section.name for section in new_sections
    ]:
        changed.append(ORDER)
    if old_instructions != new_instructions:
        changed.append(INSTRUCTIONS)
    return tuple(changed)


def _split(prompt: str) -> tuple[list[_Section], str]:
    """The sections of the definition, and the instructions around it."""
    lines = prompt.split("\n")
    if BEGIN_MARKER not in lines:
        return [], prompt
    begin = lines.index(BEGIN_MARKER)
    if END_MARKER not in lines[begin:]:
        return [], prompt
    end = lines.index(END_MARKER, begin)
    return list(_sections(lines[begin + 1 : end])), "\n".join(lines[:begin] + lines[end + 1 :])


def _sections(lines: list[str]) -> Iterator[_Section]:
    starts = [index for index, line in enumerate(lines) if line and not line.startswith(" ")]
    for start, next_start in zip(starts, [*starts[1:], len(lines)], strict=True):
        heading, text = lines[start], "\n".join(lines[start + 1 : next_start])
        if step := _STEP.fullmatch(heading):
            number, name = int(step[1]), step[2]
            yield _Section(f'step {number} "{name}"', name, text, number)
        else:
            word, _, rest = heading.partition(":")
            label = _LABELS_BY_HEADING.get(word, word)
            yield _Section(label, label, rest + text)
