"""Which test shows which statement of the documents behind scenarios, synthesis and mocks.

A test says so itself, by the marker `shows`.  `python tests/scenario_statements.py` writes the
table of docs/scenario-statements.md anew.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

TESTS: Final = Path(__file__).parent
PAGE: Final = TESTS.parent / "docs" / "scenario-statements.md"

_MARKER: Final = "pytest.mark.shows"
_WITHOUT_TWIN: Final = "without a twin"
_INTRODUCTION: Final = """\
# What scenarios do, statement by statement

Scenarios, made-up answers and mocks follow three documents: 000 describes a scripted provider, 001
a server's test mode, 004 the options of a mock. Each of their statements has a number here, a few
words, and the tests that show it over HTTP. [scenarios.md](scenarios.md) and
[synthesis.md](synthesis.md) say how to use them.

A test names its statements by the marker `shows`; `python tests/scenario_statements.py` writes
this page.
"""

_Node = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def statements() -> dict[str, dict[str, Any]]:
    """By document: what it is about, and what each of its statements says."""
    known = _known()
    del known[_WITHOUT_TWIN]
    return known


def without_twin() -> dict[str, str]:
    """The statements that nothing here corresponds to, and why not."""
    found: dict[str, str] = _known()[_WITHOUT_TWIN]
    return found


def numbers() -> list[str]:
    """All numbers, in the order of the documents."""
    return [f"{name}-{number}" for name, it in statements().items() for number in it["says"]]


def shown(folder: Path = TESTS) -> dict[str, list[str]]:
    """By number: the tests in this folder that show it, in the order of the files."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.glob("test_*.py")):
        source = path.read_text("utf-8")
        if _MARKER not in source:
            continue
        for test, given in marked(source):
            for number in given:
                found.setdefault(number, []).append(f"tests/{path.name}::{test}")
    return found


def marked(source: str) -> Iterator[tuple[str, list[str]]]:
    """The tests and the classes of tests of a file that show something, and what they show."""
    for node in ast.parse(source).body:
        yield from _shows(node, "")
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                yield from _shows(inner, f"{node.name}::")


def page(found: Mapping[str, Sequence[str]]) -> str:
    """The page, where these tests show these numbers."""
    missing = without_twin()
    parts = [_INTRODUCTION]
    for name, document in statements().items():
        rows = [
            f"\n## {name}: {document['about']}\n",
            "| | what it says | shown by |",
            "|---|---|---|",
        ]
        for number, says in document["says"].items():
            key = f"{name}-{number}"
            why = [f"no twin here: {missing[key]}"] if key in missing else []
            by = [f"`{fromkey}`" for fromkey in dict.fromkeys(found.get(key, ()))]
            rows.append(f"| {key} | {says} | {'<br>'.join(why + by)} |")
        parts.append("\n".join(rows) + "\n")
    return "".join(parts)


def _known() -> dict[str, dict[str, Any]]:
    content = (TESTS / "scenario_statements.json").read_text("utf-8")
    found: dict[str, dict[str, Any]] = json.loads(content)
    return found


def _shows(node: ast.AST, before: str) -> Iterator[tuple[str, list[str]]]:
    if not isinstance(node, _Node):
        return
    marks = [
        number
        for item in node.decorator_list
        if isinstance(item, ast.Call) and ast.unparse(item.func) == _MARKER
        for argument in item.args
        for number in _expanded(ast.literal_eval(argument))
    ]
    if marks:
        yield before + node.name, marks


def _expanded(mark: str) -> Iterator[str]:
    """The numbers of a mark: `000-04`, or `000-04 to 000-21`."""
    first, _, last = mark.partition(" to ")
    name, _, least = first.partition("-")
    most = int((last or first).partition("-")[2])
    yield from (f"{name}-{number:02}" for number in range(int(least), most + 1))


if __name__ == "__main__":
    PAGE.write_text(page(shown()), "utf-8")
