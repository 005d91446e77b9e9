"""Which test covers which statement of the specifications, and how the properties are tagged.

A test names its statements with the marker `shows`.  `python tests/scenario_statements.py`
regenerates tests/scenario_statements.md.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

TESTS: Final = Path(__file__).parent
PAGE: Final = TESTS / "scenario_statements.md"

_MARKER: Final = "pytest.mark.shows"
_WITHOUT_EQUIVALENT: Final = "without equivalent"
_INTRODUCTION: Final = """\
# Requirements and their tests

Three documents specify scenarios, synthesised responses and mocks: 000 describes a scripted
provider, 001 the test mode of a server, and 004 the options of a mock. The
[reference](../docs/reference/scenarios.md) describes their use. Document 002 specifies the
conversation runtime `llm_chat`, and document 003 tests that a model runs. This page lists each
requirement with the tests that cover it.

The marker `shows` of a test names the requirements that the test covers. To regenerate this page,
run `python tests/scenario_statements.py`.
"""

MIN_EXAMPLES: Final = 100
"""The fewest examples of a test that shows a property of document 002."""
_TAG: Final = re.compile(
    r"# Feature: stage-02-core-provider, Property (?P<number>\d+): "
    r"(?P<text>.*(?:\n *# (?!Feature:).*)*)"
)

_Node = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def statements() -> dict[str, dict[str, Any]]:
    """Return, by document, its subject and the text of each of its statements."""
    documents = _load_documents()
    del documents[_WITHOUT_EQUIVALENT]
    return documents


def statements_without_equivalent() -> dict[str, str]:
    """Return the statements that have no equivalent in this project, with the reason."""
    reasons: dict[str, str] = _load_documents()[_WITHOUT_EQUIVALENT]
    return reasons


def statement_numbers() -> list[str]:
    """Return all statement numbers, in the order of the documents."""
    return [
        f"{name}-{number}" for name, document in statements().items() for number in document["says"]
    ]


def statement_tests(folder: Path = TESTS) -> dict[str, list[str]]:
    """Return, by statement number, this folder's tests that cover it, in order of the files."""
    tests: dict[str, list[str]] = {}
    for path in sorted(folder.glob("test_*.py")):
        source = path.read_text("utf-8")
        if _MARKER not in source:
            continue
        for test, shown_numbers in marked_tests(source):
            for number in shown_numbers:
                tests.setdefault(number, []).append(f"tests/{path.name}::{test}")
    return tests


def marked_tests(source: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the tests and test classes of a file that have the marker, and their numbers."""
    for node in ast.parse(source).body:
        yield from _marked_numbers(node, "")
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                yield from _marked_numbers(inner, f"{node.name}::")


def property_tags(source: str) -> Iterator[tuple[str, str]]:
    """Yield the statement number and the text of each property tag in a file."""
    for tag in _TAG.finditer(source):
        yield f"002-P{int(tag['number']):02}", re.sub(r"\s*\n *# ", " ", tag["text"]).strip()


def example_counts(source: str) -> Iterator[tuple[str, str, int]]:
    """Yield the test, the property and the examples of each test that shows a property.

    The examples are those of a decorator `settings(max_examples=...)`, or of a constant with it.
    """
    tree = ast.parse(source)
    constants = {
        ast.unparse(target): node.value
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    }
    for node in tree.body:
        for test, numbers in _marked_numbers(node, ""):
            assert isinstance(node, _Node)
            values = [constants.get(ast.unparse(item), item) for item in node.decorator_list]
            counts = [
                int(ast.literal_eval(inner.value))
                for value in values
                for inner in ast.walk(value)
                if isinstance(inner, ast.keyword) and inner.arg == "max_examples"
            ]
            for number in numbers:
                if number.startswith("002-P"):
                    yield test, number, max(counts, default=0)


def build_page(shown_by: Mapping[str, Sequence[str]]) -> str:
    """Build the page from the tests by statement number."""
    without_equivalent = statements_without_equivalent()
    parts = [_INTRODUCTION]
    for name, document in statements().items():
        rows = [
            f"\n## {name}: {document['about']}\n",
            "| | requirement | tests |",
            "|---|---|---|",
        ]
        for number, statement in document["says"].items():
            key = f"{name}-{number}"
            reasons = (
                [f"no equivalent: {without_equivalent[key]}"] if key in without_equivalent else []
            )
            tests = [f"`{test}`" for test in dict.fromkeys(shown_by.get(key, ()))]
            rows.append(f"| {key} | {statement} | {'<br>'.join(reasons + tests)} |")
        parts.append("\n".join(rows) + "\n")
    return "".join(parts)


def _load_documents() -> dict[str, dict[str, Any]]:
    content = (TESTS / "scenario_statements.json").read_text("utf-8")
    documents: dict[str, dict[str, Any]] = json.loads(content)
    return documents


def _marked_numbers(node: ast.AST, prefix: str) -> Iterator[tuple[str, list[str]]]:
    if not isinstance(node, _Node):
        return
    marks = [
        number
        for item in node.decorator_list
        if isinstance(item, ast.Call) and ast.unparse(item.func) == _MARKER
        for argument in item.args
        for number in _expand_range(ast.literal_eval(argument))
    ]
    if marks:
        yield prefix + node.name, marks


def _expand_range(mark: str) -> Iterator[str]:
    """Yield the numbers of a marker argument: `000-04`, or `000-04 to 000-21`."""
    first, _, last = mark.partition(" to ")
    prefix, first_number = _split_number(first)
    _, last_number = _split_number(last or first)
    yield from (f"{prefix}{number:02}" for number in range(first_number, last_number + 1))


def _split_number(mark: str) -> tuple[str, int]:
    """Split `000-04` or `002-P04` at its last number."""
    prefix = mark.rstrip("0123456789")
    return prefix, int(mark.removeprefix(prefix))


if __name__ == "__main__":
    PAGE.write_text(build_page(statement_tests()), "utf-8")
