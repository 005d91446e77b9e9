"""The environment of a checkout: made, believed, extended, mended.  Nothing here asks an index."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from scratch_checkout import ROOT, scratch

BASE: Final[frozenset[str]] = frozenset()
DEV: Final = frozenset({"dev"})


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        yield importlib.import_module("bootstrap")


class Desk:
    """A checkout, and a list of installers that are Python functions."""

    def __init__(self, bootstrap: Any, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.bootstrap = bootstrap
        self.checkout = bootstrap.Checkout(root)
        self.said: list[str] = []
        self.installed: list[tuple[str, ...]] = []
        self.installers: list[Callable[[], None]] = [self.succeed]
        patch.setattr(bootstrap.installers, "usable", self._usable)
        patch.setattr(bootstrap.Builder, "_install", self._install)

    def ensure(self, extras: frozenset[str]) -> None:
        self.bootstrap.ensure(self.checkout, extras, self.said.append)

    def standing(self) -> frozenset[str] | None:
        stands: frozenset[str] | None = self.bootstrap.standing(self.checkout)
        return stands

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
        for act in self.installers:
            yield self.bootstrap.Installer(act.__name__, (), (), {"act": act})

    def _install(self, installer: Any, packages: Sequence[str]) -> None:
        self.installed.append(tuple(packages))
        installer.environ["act"]()


@pytest.fixture
def desk(bootstrap: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(bootstrap, scratch(tmp_path).root, monkeypatch)


@pytest.mark.parametrize(
    ("extras", "packages"),
    [(BASE, ("--editable", ".")), (DEV, ("--editable", ".[dev]"))],
    ids=["the program", "with its tests"],
)
def test_a_fresh_checkout_gets_what_is_asked(
    desk: Desk, extras: frozenset[str], packages: tuple[str, ...]
) -> None:
    desk.ensure(extras)

    assert desk.installed == [packages]
    assert desk.standing() == extras


def test_what_stands_is_not_made_again(desk: Desk) -> None:
    desk.ensure(DEV)
    desk.said.clear()

    desk.ensure(DEV)
    desk.ensure(BASE)

    assert (len(desk.installed), desk.said) == (1, [])


def test_more_extras_are_added_and_the_program_is_left_alone(desk: Desk) -> None:
    desk.ensure(BASE)
    desk.ensure(DEV)

    assert desk.installed[1:] == [("toy-base", "toy-linter>=2", "toy-tester")]
    assert desk.standing() == DEV


def _tear_the_stamp(desk: Desk) -> None:
    desk.checkout.stamp.write_bytes(desk.checkout.stamp.read_bytes()[:40])


def _make_the_stamp_nonsense(desk: Desk) -> None:
    desk.checkout.stamp.write_text('["llm"]')


def _stamp_by_another_python(desk: Desk) -> None:
    stamp = json.loads(desk.checkout.stamp.read_bytes())
    stamp["of"]["python"] = "cpython-310 3.10.1 of /usr"
    desk.checkout.stamp.write_text(json.dumps(stamp))


def _remove_the_interpreter(desk: Desk) -> None:
    desk.checkout.python.unlink()


def _remove_a_package(desk: Desk) -> None:
    (desk.packages / "toy_base").rmdir()


def _change_the_project(desk: Desk) -> None:
    with (desk.checkout.root / "pyproject.toml").open("a") as project:
        project.write("# another line\n")


def _move_the_checkout(desk: Desk) -> None:
    elsewhere = desk.checkout.root.with_name("elsewhere")
    shutil.move(desk.checkout.root, elsewhere)
    desk.checkout = desk.bootstrap.Checkout(elsewhere)


@pytest.mark.parametrize(
    "harm",
    [
        _tear_the_stamp,
        _make_the_stamp_nonsense,
        _stamp_by_another_python,
        _remove_the_interpreter,
        _remove_a_package,
        _change_the_project,
        _move_the_checkout,
    ],
)
def test_an_environment_that_cannot_be_believed_is_made_anew(
    desk: Desk, harm: Callable[[Desk], None]
) -> None:
    desk.ensure(DEV)
    (desk.packages / "left-over").mkdir()
    harm(desk)
    assert desk.standing() is None

    desk.ensure(DEV)

    assert desk.installed == [("--editable", ".[dev]")] * 2
    assert desk.standing() == DEV
    assert not (desk.packages / "left-over").exists()


def test_a_package_brought_up_to_date_by_hand_is_no_harm(desk: Desk) -> None:
    desk.ensure(DEV)
    (desk.packages / "toy_base-1.dist-info").rename(desk.packages / "toy_base-2.dist-info")

    assert desk.standing() == DEV


@pytest.mark.parametrize("stands", [None, BASE], ids=["made", "extended"])
def test_an_interrupted_environment_is_not_believed(
    desk: Desk, stands: frozenset[str] | None
) -> None:
    if stands is not None:
        desk.ensure(stands)
    desk.installers = [desk.interrupt]
    with pytest.raises(KeyboardInterrupt):
        desk.ensure(DEV)
    assert desk.standing() is None

    desk.installers = [desk.succeed]
    desk.ensure(DEV)

    assert desk.standing() == DEV
    assert not (desk.packages / "torn").exists()


def test_an_environment_of_other_making_is_kept(desk: Desk) -> None:
    desk.checkout.venv.mkdir()
    (desk.checkout.venv / "mine").touch()
    desk.checkout.venv.with_name(".venv-1").touch()

    desk.ensure(BASE)

    assert desk.standing() == BASE
    assert (desk.checkout.root / ".venv-2" / "mine").exists()
    assert any(".venv-2" in line for line in desk.said)


def test_where_one_installer_fails_the_next_begins_from_nothing(desk: Desk) -> None:
    desk.installers = [desk.fail_half_way, desk.succeed]

    desk.ensure(BASE)

    assert desk.standing() == BASE
    assert not (desk.packages / "torn").exists()
    assert "fail_half_way says: no such package" in desk.said


def test_an_extension_that_changed_nothing_leaves_what_stood(desk: Desk) -> None:
    desk.ensure(BASE)
    desk.installers = [desk.fail, desk.fail]

    with pytest.raises(desk.bootstrap.SetupError):
        desk.ensure(DEV)

    assert desk.standing() == BASE


def test_an_extension_that_failed_half_way_is_made_anew(desk: Desk) -> None:
    desk.ensure(BASE)
    desk.installers = [desk.fail_half_way, desk.succeed]

    desk.ensure(DEV)

    assert desk.installed[2:] == [("--editable", ".[dev]")]
    assert desk.standing() == DEV


def test_a_failure_is_one_sentence_with_its_reason_and_the_log(desk: Desk) -> None:
    desk.installers = [desk.fail]

    with pytest.raises(desk.bootstrap.SetupError) as failure:
        desk.ensure(BASE)

    message = str(failure.value)
    assert "\n" not in message
    assert "fail says: no such package" in message
    assert str(desk.checkout.tools / "setup.log") in message


def test_the_environment_lies_in_its_two_folders_alone(desk: Desk) -> None:
    before = {path.name for path in desk.checkout.root.iterdir()}

    desk.ensure(DEV)

    after = {path.name for path in desk.checkout.root.iterdir()}
    assert after - before == {".venv", ".tools"}
