"""Official clients as judges: which are installed here, and what one hears when it asks.

A judge is a folder of `tests/judges` with a program that speaks their protocol (`hearing.py` has
it).  Its environment is its own, made by `scripts/judges`; a judge without a lock runs in the
environment of these tests.

    @pytest.mark.skipif(bool(missing("cohere")), reason=missing("cohere"))
    answers = await ask("cohere", url, [Ask("1", "cohere", "command-a", "Hello", stream=True)])
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

sys.path.append(str(Path(__file__).resolve().parents[1] / "scripts"))  # they are no package
import judge_environments
from judge_environments import Judge

FOLDER: Final = Path(__file__).with_name("judges")
PROTOCOL: Final = FOLDER / "protocol"
"""What the judges in Python share."""
STAMP: Final = judge_environments.STAMP

_TIMEOUT: Final = 400.0
"""Seconds for all asks of one run."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to put."""

    id: str
    dialect: str
    model: str
    say: str
    """The text of the one user message."""
    stream: bool
    tools: bool = False
    """Whether the tool `get_weather` is offered."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client heard; None where it cannot tell, or was not told."""

    id: str
    text: str | None
    reasoning: str | None
    refusal: str | None
    calls: list[dict[str, Any]] | None
    """Each with `id`, `name` and `arguments`: the value, or text that is not JSON."""
    finish: str | None
    usage: dict[str, int | None] | None
    """`input` and `output`, in tokens."""
    error: dict[str, Any] | None
    """`type`, `status` and `message` of what it raised."""


def judges() -> tuple[str, ...]:
    """The names of all judges, installed or not."""
    return tuple(sorted(it.parent.name for it in FOLDER.glob("*/judge.*")))


@cache
def missing(name: str) -> str:
    """Why this judge cannot judge here, and what would let it; empty if it can."""
    judge = Judge(FOLDER / name)
    if judge.node and shutil.which("node") is None:
        return f"judge {name}: there is no node"
    return "" if judge.stands() else f"judge {name} is not installed: scripts/judges {name}"


def speaks(name: str) -> bool:
    """Whether this judge speaks the protocol; others are programs that do a task."""
    return (FOLDER / name / "abilities.json").exists()


def abilities(name: str) -> dict[str, dict[str, list[str]]]:
    """What this judge can tell: by dialect and `stream` or `whole`, the fields of an `Answer`.

    Beside these, `own` names the fields that it tells in words of its own, and `cannot` those that
    it cannot tell; each with the reason.
    """
    told: dict[str, dict[str, list[str]]] = json.loads(
        (FOLDER / name / "abilities.json").read_bytes()
    )
    return told


async def ask(name: str, url: str, asks: Sequence[Ask]) -> list[Answer]:
    """What this judge hears from a proxy at this URL, in the order of the asks.

    Raises `AssertionError` where the judge itself ends badly or leaves one out.
    """
    program = next(FOLDER.joinpath(name).glob("judge.*"))
    out = await run(program, {"url": url, "asks": [asdict(it) for it in asks]})
    answers = [Answer(**json.loads(line)) for line in out.splitlines()]
    assert [it.id for it in answers] == [it.id for it in asks], f"judge {name} left some out"
    return answers


async def run(program: Path, asked: object) -> bytes:
    """What a program beside a client prints that is asked this, as JSON.

    Raises `AssertionError` where it ends badly.
    """
    process = await asyncio.create_subprocess_exec(
        *_command(program),
        env=_environment(os.environ.items()),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=2**26,
    )
    try:
        async with asyncio.timeout(_TIMEOUT):
            out, err = await process.communicate(json.dumps(asked).encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, f"judge {program.parent.name}: {err.decode(errors='replace')}"
    return out


def _command(program: Path) -> tuple[str, str]:
    judge = Judge(program.parent)
    own = judge.environment / "bin" / "python"
    python = str(own) if judge.python else sys.executable
    return "node" if judge.node else python, str(program)


def _environment(of: Iterable[tuple[str, str]]) -> dict[str, str]:
    """No proxies of the machine between a judge and us, and no packages but the judge's own."""
    kept = {name: value for name, value in of if not name.upper().endswith("_PROXY")}
    return {**kept, "NO_PROXY": "127.0.0.1", "PYTHONPATH": str(PROTOCOL), "PYTHONUTF8": "1"}
