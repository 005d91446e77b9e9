"""Every lint exception (`noqa`, `type: ignore`) states its reason in the same comment."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from case_tables import each_row

ROOT = Path(__file__).parents[1]
EXCEPTION = re.compile(rb"#\s*(noqa|type:\s*ignore|pragma)\b", re.IGNORECASE)
EXPLAINED = re.compile(r"# (?:noqa: [A-Z]+\d+(?:, [A-Z]+\d+)*|type: ignore\[[a-z, -]+\]) # \S.*")


def sources() -> list[Path]:
    """Return all Python files of the repository, including scripts without a `.py` suffix."""
    named = [*ROOT.glob("proxy/*/**/*.py"), *ROOT.glob("tests/*.py")]
    scripts = [path for path in ROOT.glob("scripts/**/*") if path.is_file()]
    python_scripts = [
        script
        for script in scripts
        if script.suffix == ".py" or b"python3" in script.read_bytes()[:40]
    ]
    return [*named, *python_scripts]


def unexplained_exceptions(content: bytes) -> Iterator[str]:
    """Yield the lint exceptions that state no reason."""
    if EXCEPTION.search(content) is None:
        return
    for token in tokenize.tokenize(BytesIO(content).readline):
        comment = token.string if token.type == tokenize.COMMENT else ""
        if EXCEPTION.search(comment.encode()) and EXPLAINED.fullmatch(comment) is None:
            yield f"{token.start[0]}: {comment}"


def test_every_exception_from_a_rule_says_why() -> None:
    paths = sources()
    assert len(paths) > 100
    unexplained = {
        str(path.relative_to(ROOT)): list(unexplained_exceptions(path.read_bytes()))
        for path in paths
    }
    assert {path: comments for path, comments in unexplained.items() if comments} == {}


@each_row(
    ("comment", "is_explained"),
    [
        ("# noqa: S101 # we made it", True),
        ("# noqa: S101, E501 # we made it", True),
        ("# type: ignore[arg-type] # the table has them", True),
        ("# why", True),
        ("# noqa: S101", False),
        ("# noqa", False),
        ("# type: ignore", False),
        ("# type: ignore[arg-type]", False),
        ("#noqa:S101", False),
    ],
)
def test_an_exception_without_a_reason_is_detected(comment: str, is_explained: bool) -> None:
    assert (not list(unexplained_exceptions(f"x = 1  {comment}\n".encode()))) == is_explained
