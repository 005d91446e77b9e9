"""Tests of `scripts/size`, which counts the code of each package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "size"

_MODULE = '''\
"""A docstring."""


# A comment.
def double(number: int) -> int:
    """Another."""
    return _times(number, 2)


def _times(left: int, right: int) -> int:
    return left * right
'''


def test_comments_and_docstrings_are_no_tokens_and_a_helper_named_once_is_counted(
    tmp_path: Path,
) -> None:
    package = tmp_path / "proxy" / "llm_proxy" / "faults" / "kinds"
    package.mkdir(parents=True)
    (package / "double.py").write_text(_MODULE)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "launch").write_text("#!/usr/bin/env python3\nprint()\n")

    printed = subprocess.run(
        [sys.executable, str(_SCRIPT), str(tmp_path)],
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    ).stdout

    rows = [line.split() for line in printed.splitlines()[1:]]
    assert rows == [
        ["faults", "35", "6", "11", "1", "1"],
        ["proxy", "35", "6", "11", "1", "1"],
        ["scripts", "3", "1", "2", "1", "0"],
        ["all", "38", "7", "13", "2", "1"],
    ]
