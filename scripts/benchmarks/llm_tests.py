"""How long a test that a model runs takes in a replay: the model is replayed, the tools run."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

from result_table import Row
from server_processes import run_llm_proxy

from llm_pytest.definitions import load_definition
from llm_pytest.models import Verdict
from llm_pytest.runner import RunOptions, run_test

TARGET_S: Final = 0.5
_CALLS: Final = 7
_VERDICT: Final = {"verdict": "PASS", "reason": "They are equal.", "steps": [], "issues": []}
_DEFINITION: Final = "name: equal\nsteps:\n  - {name: Compare, do: Compare 1 with 1.}\n"


def measure(folder: Path, *, is_quick: bool) -> Iterator[Row]:
    """Measure, and yield the row."""
    definition = folder / "equal.yaml"
    definition.write_text(_DEFINITION)
    scenario = folder / "scenario.json"
    scenario.write_text(json.dumps(_scenario()))
    cassettes = ("--cassettes", str(folder / "cassettes"), "--normalise", "llm-pytest")
    with run_llm_proxy(folder, "simulate", "--scenarios", str(scenario)) as model:
        upstream = f"default=http://127.0.0.1:{model}"
        with run_llm_proxy(folder, "record", *cassettes, "--upstream", upstream) as port:
            _run(definition, port)
    with run_llm_proxy(folder, "replay", *cassettes, "--pace", "instant") as port:
        _run(definition, port)  # loads modules
        seconds = median(_run(definition, port) for _ in range(5 if is_quick else 20))
    yield Row("test", f"replayed LLM test of {_CALLS} calls", seconds, "s", target=TARGET_S)


def _run(definition: Path, port: int) -> float:
    """The seconds of one run."""
    environ = {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1", "OPENAI_API_KEY": "none"}
    options = RunOptions(provider="openai", model="bench", environ=environ)
    began_s = time.perf_counter()
    run = run_test(load_definition(definition), definition, options)
    seconds = time.perf_counter() - began_s
    assert run.outcome == Verdict("PASS", "They are equal.")
    assert len(run.calls) == _CALLS
    return seconds


def _scenario() -> dict[str, object]:
    call = {"tool_name": "assert_equals", "arguments": {"actual": 1, "expected": 1, "step": "1"}}
    turns: list[dict[str, object]] = [
        {"turn": number, "response": {"kind": "tool-call", "tool_calls": [call]}}
        for number in range(1, _CALLS + 1)
    ]
    answer = {"kind": "text", "assistant_text": json.dumps(_VERDICT)}
    return {
        "id": "equal",
        "description": "Compares again and again, then returns the verdict.",
        "match": {"model": "bench"},
        "turns": [*turns, {"turn": _CALLS + 1, "response": answer}],
    }
