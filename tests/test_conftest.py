"""Tests with requirements outside the checkout: skipped where they are missing, and counted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import missing_live_model
from scratch_checkout import ROOT

SUITE = """
import os
import pytest

@pytest.mark.corpus
@pytest.mark.parametrize("n", range(3))
def test_corpus(n): pass

@pytest.mark.corpus
def test_corpus_that_fails(): assert False

@pytest.mark.live
def test_live(): pass

@pytest.mark.thorough
def test_thorough(): pass

def test_plain():
    assert not {"CI", "LLM_PROXY_PACE", "https_proxy", "OPENAI_API_KEY"} & set(os.environ)
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_bytes((ROOT / "tests/conftest.py").read_bytes())
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "exchanges.jsonl").touch()
    (tmp_path / "server").touch()
    (tmp_path / "model").touch()
    return tmp_path


def closing_lines(suite: Path, *arguments: str, **environ: str) -> list[str]:
    """The summary lines of a run of the suite: corpus, live model, tier, and totals."""
    command = (
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        ROOT / "pyproject.toml",
        "--rootdir",
        suite,
    )
    result = subprocess.run(
        (*command, *arguments, suite),
        cwd=suite,
        env={"PATH": os.defpath, "PYTHONPATH": f"{ROOT}/tests:{ROOT}/proxy", **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    summary_lines = [
        line
        for line in result.stdout.splitlines()
        if line.startswith(("corpus:", "live:", "tier:"))
    ]
    return [*summary_lines, result.stdout.splitlines()[-1]]


@pytest.mark.parametrize(
    "processes",
    [pytest.param((), marks=pytest.mark.thorough), ("-n", "1")],
    ids=["one process", "with a worker"],
)
def test_met_requirements_are_run_and_counted(suite: Path, processes: tuple[str, ...]) -> None:
    corpus, live, tier, total = closing_lines(
        suite,
        *processes,
        LLM_PROXY_THOROUGH="1",
        LLM_PROXY_CORPUS=f"{suite}/corpus",
        LLM_PROXY_LIVE_SERVER=f"{suite}/server",
        LLM_PROXY_LIVE_MODEL=f"{suite}/model",
        CI="true",
        LLM_PROXY_PACE="4x",
        https_proxy="http://127.0.0.1:1",
        OPENAI_API_KEY="canary",
    )

    assert (corpus, live, tier) == ("corpus: 4 ran", "live: 1 ran", "tier: all tests")
    assert "1 failed, 6 passed" in total


@pytest.mark.parametrize(
    "processes",
    [(), pytest.param(("-n", "1"), marks=pytest.mark.thorough)],
    ids=["one process", "with a worker"],
)
def test_missing_requirements_are_skipped_and_reported(
    suite: Path, processes: tuple[str, ...]
) -> None:
    corpus, live, tier, total = closing_lines(suite, *processes, LLM_PROXY_CORPUS="/nowhere")

    assert corpus.startswith("corpus: 4 skipped: ")
    assert "set LLM_PROXY_CORPUS" in corpus
    assert live == "live: 1 skipped: set LLM_PROXY_LIVE_SERVER to a file"
    assert tier.startswith("tier: daily; ")
    assert "1 passed, 5 skipped" in total


@pytest.mark.thorough
def test_deselected_tests_are_reported_too(suite: Path) -> None:
    corpus, live, *_ = closing_lines(suite, "-k", "plain")

    assert (corpus, live) == ("corpus: none chosen", "live: none chosen")


def test_a_live_model_is_two_files(suite: Path) -> None:
    server, model, nothing = (str(suite / name) for name in ("server", "model", "nothing"))

    assert missing_live_model((server, model)) == ""
    assert missing_live_model((server, None)) == "set LLM_PROXY_LIVE_MODEL to a file"
    assert missing_live_model((nothing, model)) == f"LLM_PROXY_LIVE_SERVER names no file: {nothing}"
