"""`scripts/demo` and `scripts/test` as a user starts them, in a toy project."""

from __future__ import annotations

import ast
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from case_tables import each_row
from scratch_checkout import ROOT, ScratchCheckout, make_scratch_checkout

LAUNCHERS = ("demo", "test")
MODULES = ("bootstrap.py", "checks.py", "judge_environments.py")


@pytest.fixture
def checkout(tmp_path: Path) -> ScratchCheckout:
    return make_scratch_checkout(tmp_path)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> ScratchCheckout:
    """A checkout with a finished environment; tests leave it as it is."""
    checkout = make_scratch_checkout(tmp_path_factory.mktemp("ready"))
    checkout.run("test", "--version")
    return checkout


@pytest.fixture
def gate(checkout: ScratchCheckout) -> Path:
    """A FIFO that blocks every installer of the checkout at its start until it is written to."""
    os.mkfifo(checkout.root / "started")
    os.mkfifo(checkout.root / "gate")
    return checkout.root / "gate"


def wait_for_installer(checkout: ScratchCheckout, launcher: subprocess.Popen[str]) -> int:
    """Wait until the installer of this launcher has started, and return its process id.

    Fails as soon as the launcher ends without starting one.
    """
    assert launcher.stderr is not None
    output = b""
    # Read and write: opening a FIFO only for reading blocks until there is a writer.
    with open(checkout.root / "started", "rb+", buffering=0) as started:  # noqa: PTH123 # a FIFO
        descriptors = (started.fileno(), launcher.stderr.fileno())
        while started.fileno() not in (ready := select.select(descriptors, [], [], 60)[0]):
            assert ready, f"after 60 s no installer has started: {output.decode()}"
            chunk = os.read(launcher.stderr.fileno(), 4096)
            assert chunk, f"the launcher ended before any installer started: {output.decode()}"
            output += chunk
        return int(started.readline())


def release_installers(checkout: ScratchCheckout, gate: Path) -> None:
    """Release the blocked installer, and let later installers run without waiting."""
    with gate.open("w"):
        (checkout.root / "started").unlink()


def test_the_demo_launcher_installs_once_and_runs_the_programs_demo(
    checkout: ScratchCheckout,
) -> None:
    code, out, err = checkout.run("demo", "--pace", "4x")

    assert (code, out) == (0, "llm-proxy demo --pace 4x\n")
    assert checkout.uv_calls() == ["--editable ."]
    assert {line.partition(": ")[0] for line in err.splitlines()} == {"scripts/demo"}

    assert checkout.run("demo") == (0, "llm-proxy demo\n", "")
    assert len(checkout.uv_calls()) == 1


@contextmanager
def failing(checkout: ScratchCheckout, *programs: str) -> Iterator[None]:
    """Make these programs of the checkout fail meanwhile."""
    marks = [checkout.root / f"{program}-fails" for program in programs]
    for mark in marks:
        mark.touch()
    try:
        yield
    finally:
        for mark in marks:
            mark.unlink()


def test_the_exit_code_of_the_demo_is_kept(ready: ScratchCheckout) -> None:
    with failing(ready, "llm-proxy"):
        assert ready.run("demo")[0] == 1


def test_a_program_that_is_not_there_is_one_sentence(checkout: ScratchCheckout) -> None:
    (checkout.root / "no-llm-proxy").touch()
    checkout.run("demo")

    code, out, err = checkout.run("demo")

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"cannot run {checkout.root}/.venv/bin/llm-proxy" in err


def test_all_steps_run_though_some_fail(ready: ScratchCheckout) -> None:
    with failing(ready, "ruff", "pytest"):
        code, out, _ = ready.run("test")

    assert code == 1
    for command in ("ruff check", "ruff format --check", "mypy", "pytest -n 3"):
        assert f"\n{command}" in out
    *_, lint, layout, types, tests = out.splitlines()
    assert [line.split()[:2] for line in (lint, layout, types, tests)] == [
        ["lint", "FAILED"],
        ["format", "FAILED"],
        ["types", "ok"],
        ["tests", "FAILED"],
    ]


@each_row(
    ("arguments", "programs"),
    [
        (("--lint",), ["ruff check", "ruff format --check"]),
        (("--types",), ["mypy"]),
        (("--thorough", "--types"), ["mypy"]),
        (("--lint", "--types"), ["ruff check", "ruff format --check", "mypy"]),
        (("tests/test_x.py", "-k", "y"), ["pytest tests/test_x.py -k y"]),
        (("--lint", "-x"), ["pytest --lint -x"]),
    ],
)
def test_arguments_choose_steps_or_go_to_pytest(
    ready: ScratchCheckout, arguments: tuple[str, ...], programs: list[str]
) -> None:
    code, out, _ = ready.run("test", *arguments)

    ran = [line for line in out.splitlines() if line.startswith(("ruff", "mypy", "pytest"))]
    assert (code, ran) == (0, programs)
    assert ready.uv_calls() == ["--editable .[dev]"]


def test_help_teaches_and_makes_no_environment(checkout: ScratchCheckout) -> None:
    code, out, _ = checkout.run("test", "--help")

    assert code == 0
    for word in ("--lint", "--types", "-k takes", "LLM_PROXY_CORPUS", "LLM_PROXY_LIVE_MODEL"):
        assert word in out
    assert not (checkout.root / ".venv").exists()


def test_packages_that_are_not_to_be_had_are_one_sentence_and_exit_2(
    checkout: ScratchCheckout,
) -> None:
    (checkout.root / "uv-fails").touch()
    (checkout.root / "toy_backend.py").unlink()

    code, out, err = checkout.run("demo")

    assert (code, out) == (2, "")
    assert "scripts/demo: uv failed: the index is down" in err
    assert "then try again" in err.splitlines()[-1]


def test_two_launchers_at_once_make_one_environment(checkout: ScratchCheckout, gate: Path) -> None:
    with checkout.start("demo") as first:
        wait_for_installer(checkout, first)
        with checkout.start("demo") as second:
            assert second.stderr is not None
            waits = second.stderr.readline()
            release_installers(checkout, gate)
            outputs = [first.communicate(timeout=60)[0], second.communicate(timeout=60)[0]]

    assert "waiting for another launcher" in waits
    assert outputs == ["llm-proxy demo\n"] * 2
    assert checkout.uv_calls() == ["--editable ."]


def test_a_killed_launcher_leaves_the_lock_to_its_installer(
    checkout: ScratchCheckout, gate: Path
) -> None:
    with checkout.start("demo") as first:
        wait_for_installer(checkout, first)
        first.kill()
        first.communicate(timeout=60)
    with checkout.start("demo") as second:
        assert second.stderr is not None
        waits = second.stderr.readline()
        release_installers(checkout, gate)
        out, err = second.communicate(timeout=60)

    assert "waiting for another launcher" in waits
    assert "creating .venv" in err
    assert (second.returncode, out) == (0, "llm-proxy demo\n")
    assert checkout.uv_calls() == ["--editable ."] * 2


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "terminated"]
)
@pytest.mark.usefixtures("gate")
def test_a_stopped_launcher_takes_its_installer_along(
    checkout: ScratchCheckout, number: signal.Signals, code: int
) -> None:
    with checkout.start("demo") as launcher:
        installer = wait_for_installer(checkout, launcher)
        launcher.send_signal(number)
        launcher.communicate(timeout=60)

    assert launcher.returncode == code
    with pytest.raises(ProcessLookupError):
        os.kill(installer, 0)
    (checkout.root / "started").unlink()
    assert checkout.run("demo")[:2] == (0, "llm-proxy demo\n")
    assert checkout.uv_calls() == ["--editable ."] * 2


def test_waiting_for_an_installer_ends_with_a_launcher_that_starts_none(
    checkout: ScratchCheckout, gate: Path
) -> None:
    gate.with_name("scripts").joinpath("bootstrap.py").write_text("raise SystemExit('broken')")

    with (
        checkout.start("demo") as launcher,
        pytest.raises(AssertionError, match="ended before any installer started: broken"),
    ):
        wait_for_installer(checkout, launcher)


def test_the_real_pip_alone_makes_an_environment_that_works(checkout: ScratchCheckout) -> None:
    checkout.use_real_pip()
    (checkout.path_folder / "uv").unlink()
    checkout.extra_environment["PIP_NO_INDEX"] = "1"
    project = checkout.root / "pyproject.toml"
    project.write_text(project.read_text().replace('"toy-base"', ""))

    code, out, err = checkout.run("demo", "--quick")

    if "has no pip" in err:
        pytest.skip("this machine has no pip")
    assert (code, out) == (0, "toy demo --quick\n")
    assert "creating .venv with pip" in err


@each_row("name", LAUNCHERS)
def test_an_older_python_is_one_sentence_and_exit_2(name: str) -> None:
    script = ROOT / "scripts" / name
    script_with_older_version = (
        f"import runpy, sys; sys.version_info = (3, 10, 4); sys.path[0] = {str(script.parent)!r}; "
        f"runpy.run_path({str(script)!r}, "
    )
    result = subprocess.run(
        (sys.executable, "-c", script_with_older_version + "run_name='__main__')"),
        capture_output=True,
        text=True,
        check=False,
    )

    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert f"scripts/{name} needs Python 3.11 or newer" in result.stderr


@each_row("name", [*LAUNCHERS, "launcher.py"])
def test_an_older_python_can_read_the_launcher(name: str) -> None:
    source = (ROOT / "scripts" / name).read_text()

    tree = ast.parse(source, feature_version=(3, 4))

    assert not [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]


@each_row("name", [*LAUNCHERS, "launcher.py", *MODULES])
def test_the_setup_needs_only_the_standard_library(name: str) -> None:
    tree = ast.parse((ROOT / "scripts" / name).read_text())
    imported = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }

    tops = {module.partition(".")[0] for module in imported}
    assert tops - sys.stdlib_module_names <= {
        "bootstrap",
        "checks",
        "judge_environments",
        "launcher",
    }


@each_row("path", ["scripts/demo", "scripts/test", ".ci/run"])
def test_a_launcher_can_be_executed(path: str) -> None:
    script = ROOT / path

    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!/usr/bin/env ")


def test_ci_runs_what_a_developer_runs(checkout: ScratchCheckout) -> None:
    (checkout.root / ".ci").mkdir()
    script = checkout.root / ".ci" / "run"
    script.write_bytes((ROOT / ".ci/run").read_bytes())
    (checkout.path_folder / "python3").symlink_to(sys.executable)

    result = subprocess.run(
        ("/usr/bin/env", "bash", script),
        cwd="/",
        env={**checkout.environment(), "CI": "true"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0
    assert "pytest -n 3" in result.stdout
