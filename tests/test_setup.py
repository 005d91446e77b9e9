"""Builds, validates, extends and repairs a checkout's environment, without a package index."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from scratch_checkout import ROOT, make_scratch_checkout

BASE: Final[frozenset[str]] = frozenset()
DEV: Final = frozenset({"dev"})


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        yield importlib.import_module("bootstrap")


class SetupHarness:
    """A checkout with installers that are Python functions."""

    def __init__(self, bootstrap: Any, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.bootstrap = bootstrap
        self.checkout = bootstrap.Checkout(root)
        self.messages: list[str] = []
        self.installed: list[tuple[str, ...]] = []
        self.installers: list[Callable[[], None]] = [self.succeed]
        run_command = bootstrap.CommandRunner.run

        def run(runner: Any, *command: Any, act: Callable[[], None] | None = None) -> None:
            if act is None:
                run_command(runner, *command)
            else:
                self.installed.append(command[2:])
                act()

        patch.setattr(bootstrap, "available_installers", self._usable)
        patch.setattr(bootstrap.CommandRunner, "run", run)

    def ensure(self, extras: frozenset[str]) -> None:
        self.bootstrap.ensure_environment(self.checkout, extras, self.messages.append)

    def usable_extras(self) -> frozenset[str] | None:
        extras: frozenset[str] | None = self.bootstrap.installed_extras(self.checkout)
        return extras

    @property
    def packages(self) -> Path:
        return next(Path(self.checkout.venv).glob("lib/python*/site-packages"))

    def succeed(self) -> None:
        (self.packages / "toy_base").mkdir(exist_ok=True)
        (self.packages / "toy_base-1.dist-info").mkdir(exist_ok=True)

    def fail(self) -> None:
        raise self.bootstrap.CommandFailed("no such package")

    def fail_half_way(self) -> None:
        (self.packages / "torn").mkdir()
        self.fail()

    def interrupt(self) -> None:
        (self.packages / "torn").mkdir()
        raise KeyboardInterrupt

    def _usable(self, *_: object) -> Iterator[Any]:
        for install in self.installers:
            yield self.bootstrap.Installer(install.__name__, ("install",), (), {"act": install})


@pytest.fixture
def harness(bootstrap: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SetupHarness:
    return SetupHarness(bootstrap, make_scratch_checkout(tmp_path).root, monkeypatch)


@pytest.mark.parametrize(
    ("extras", "packages"),
    [(BASE, ("--editable", ".")), (DEV, ("--editable", ".[dev]"))],
    ids=["the program", "with its tests"],
)
def test_a_fresh_checkout_gets_the_requested_extras(
    harness: SetupHarness, extras: frozenset[str], packages: tuple[str, ...]
) -> None:
    harness.ensure(extras)

    assert harness.installed == [packages]
    assert harness.usable_extras() == extras


def test_a_usable_environment_is_not_rebuilt(harness: SetupHarness) -> None:
    harness.ensure(DEV)
    harness.messages.clear()

    harness.ensure(DEV)
    harness.ensure(BASE)

    assert (len(harness.installed), harness.messages) == (1, [])


def test_more_extras_are_added_to_the_environment_that_is_there(harness: SetupHarness) -> None:
    harness.ensure(BASE)
    (harness.packages / "loaded").mkdir()
    harness.ensure(DEV)

    assert harness.installed[1:] == [("--editable", ".[dev]")]
    assert harness.usable_extras() == DEV
    assert (harness.packages / "loaded").exists()


def _truncate_the_stamp(harness: SetupHarness) -> None:
    harness.checkout.stamp_file.write_bytes(harness.checkout.stamp_file.read_bytes()[:40])


def _corrupt_the_stamp(harness: SetupHarness) -> None:
    harness.checkout.stamp_file.write_text('["llm"]')


def _set_another_python_in_the_stamp(harness: SetupHarness) -> None:
    stamp = json.loads(harness.checkout.stamp_file.read_bytes())
    stamp["of"]["python"] = "cpython-310 3.10.1 of /usr"
    harness.checkout.stamp_file.write_text(json.dumps(stamp))


def _remove_the_interpreter(harness: SetupHarness) -> None:
    harness.checkout.python.unlink()


def _change_the_project(harness: SetupHarness) -> None:
    with (harness.checkout.root / "pyproject.toml").open("a") as project:
        project.write("# another line\n")


def _move_the_checkout(harness: SetupHarness) -> None:
    elsewhere = harness.checkout.root.with_name("elsewhere")
    shutil.move(harness.checkout.root, elsewhere)
    harness.checkout = harness.bootstrap.Checkout(elsewhere)


@pytest.mark.parametrize(
    "damage",
    [
        _truncate_the_stamp,
        _corrupt_the_stamp,
        _set_another_python_in_the_stamp,
        _remove_the_interpreter,
        _change_the_project,
        _move_the_checkout,
    ],
)
def test_an_unusable_environment_is_rebuilt(
    harness: SetupHarness, damage: Callable[[SetupHarness], None]
) -> None:
    harness.ensure(DEV)
    (harness.packages / "left-over").mkdir()
    damage(harness)
    assert harness.usable_extras() is None

    harness.ensure(DEV)

    assert harness.installed == [("--editable", ".[dev]")] * 2
    assert harness.usable_extras() == DEV
    assert not (harness.packages / "left-over").exists()


def test_an_environment_that_is_out_of_date_is_rebuilt_with_its_extras(
    harness: SetupHarness,
) -> None:
    harness.ensure(DEV)
    _change_the_project(harness)

    harness.ensure(BASE)

    assert harness.usable_extras() == DEV


@pytest.mark.parametrize("previous_extras", [None, BASE], ids=["made", "extended"])
def test_an_interrupted_environment_is_unusable(
    harness: SetupHarness, previous_extras: frozenset[str] | None
) -> None:
    if previous_extras is not None:
        harness.ensure(previous_extras)
    harness.installers = [harness.interrupt]
    with pytest.raises(KeyboardInterrupt):
        harness.ensure(DEV)
    assert harness.usable_extras() is None

    harness.installers = [harness.succeed]
    harness.ensure(DEV)

    assert harness.usable_extras() == DEV
    assert not (harness.packages / "torn").exists()


def test_a_foreign_environment_is_kept(harness: SetupHarness) -> None:
    harness.checkout.venv.mkdir()
    (harness.checkout.venv / "mine").touch()
    harness.checkout.venv.with_name(".venv-1").touch()

    harness.ensure(BASE)

    assert harness.usable_extras() == BASE
    assert (harness.checkout.root / ".venv-2" / "mine").exists()
    assert any(".venv-2" in line for line in harness.messages)


def test_after_a_failed_installer_the_next_starts_from_nothing(harness: SetupHarness) -> None:
    harness.installers = [harness.fail_half_way, harness.succeed]

    harness.ensure(BASE)

    assert harness.usable_extras() == BASE
    assert not (harness.packages / "torn").exists()
    assert "fail_half_way failed: no such package" in harness.messages


def test_an_extension_that_failed_half_way_is_rebuilt(harness: SetupHarness) -> None:
    harness.ensure(BASE)
    harness.installers = [harness.fail_half_way, harness.succeed]

    harness.ensure(DEV)

    assert harness.installed[2:] == [("--editable", ".[dev]")]
    assert harness.usable_extras() == DEV


def test_a_failure_is_one_sentence_with_its_reason_and_the_log(harness: SetupHarness) -> None:
    harness.installers = [harness.fail]

    with pytest.raises(harness.bootstrap.SetupError) as failure:
        harness.ensure(BASE)

    message = str(failure.value)
    assert "\n" not in message
    assert "fail failed: no such package" in message
    assert str(harness.checkout.tools / "setup.log") in message


def test_the_environment_lies_in_its_two_folders_alone(harness: SetupHarness) -> None:
    before = {path.name for path in harness.checkout.root.iterdir()}

    harness.ensure(DEV)

    after = {path.name for path in harness.checkout.root.iterdir()}
    assert after - before == {".venv", ".tools"}
