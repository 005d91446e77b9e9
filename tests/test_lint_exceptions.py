"""An exception from a rule carries its reason, right beside it."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXCEPTION = re.compile(r"#\s*(noqa|type:\s*ignore|pragma)\b", re.IGNORECASE)
REASONED = re.compile(r"# (?:noqa: [A-Z]+\d+(?:, [A-Z]+\d+)*|type: ignore\[[a-z, -]+\]) # \S.*")


def sources() -> list[Path]:
    """All our Python, also where its name does not say so."""
    named = [*ROOT.glob("proxy/llm_proxy/**/*.py"), *ROOT.glob("tests/*.py")]
    scripts = [path for path in ROOT.glob("scripts/**/*") if path.is_file()]
    python = [
        script
        for script in scripts
        if script.suffix == ".py" or b"python3" in script.read_bytes()[:40]
    ]
    return [*named, *python]


def unreasoned(content: bytes) -> Iterator[str]:
    """The comments that make an exception and do not say why."""
    for token in tokenize.tokenize(BytesIO(content).readline):
        comment = token.string if token.type == tokenize.COMMENT else ""
        if EXCEPTION.search(comment) and REASONED.fullmatch(comment) is None:
            yield f"{token.start[0]}: {comment}"


def test_every_exception_from_a_rule_says_why() -> None:
    paths = sources()
    assert len(paths) > 100
    bare = {str(item.relative_to(ROOT)): list(unreasoned(item.read_bytes())) for item in paths}
    assert {path: found for path, found in bare.items() if found} == {}


@pytest.mark.parametrize(
    ("comment", "fine"),
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
def test_a_bare_exception_is_noticed(comment: str, fine: bool) -> None:
    assert (not list(unreasoned(f"x = 1  {comment}\n".encode()))) == fine
