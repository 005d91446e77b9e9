"""Installer selection, and the parts of pip's configuration that are passed to uv."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from case_tables import each_row
from scratch_checkout import ROOT


@pytest.fixture(scope="module")
def installers() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        yield importlib.import_module("bootstrap")


class Machine:
    """Fakes the answers of a machine's programs and records the commands that are run."""

    def __init__(self, installers: Any, tools: Path) -> None:
        self.tools = tools
        self.uv_path = tools / "uv" / "bin" / "uv"
        self.has: set[str] = set()
        self.settings = ""
        self.ran: list[str] = []
        self.notices: list[str] = []
        self._installers = installers

    def capture_stdout(self, *command: str | Path) -> str | None:
        words = " ".join(map(str, command))
        if words.endswith("config list"):
            return self.settings
        needs = {
            "-m pip": "pip",
            "-m venv": "ensurepip",
            str(self.uv_path): "kept uv",
            "/path/uv": "uv",
        }
        return "" if any(part in words and one in self.has for part, one in needs.items()) else None

    def run(self, *command: str | Path) -> None:
        self.ran.append(" ".join(map(str, command)))
        if "index" not in self.has:
            raise self._installers.CommandFailed("no such package")
        self.has.add("kept uv")

    def usable(self) -> list[str]:
        return [
            " ".join(map(str, (*installer.command_prefix, *installer.command_suffix))).replace(
                str(self.tools), "…"
            )
            for installer in self._installers.available_installers(self, self.notices.append)
        ]


@pytest.fixture
def machine(installers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    path = tmp_path / "path"
    path.mkdir()
    (path / "uv").touch(0o755)
    monkeypatch.setenv("PATH", str(path))
    return Machine(installers, tmp_path)


_UV = "pip install --python"
_PIP = "-m pip --python install --progress-bar=off"


@pytest.mark.parametrize(
    ("has", "offers"),
    [
        ("pip, index", [f"…/uv/bin/uv {_UV}", f"python {_PIP}"]),
        ("pip", [f"python {_PIP}"]),
        ("pip, uv", [f"…/path/uv {_UV}", f"python {_PIP}"]),
        ("pip, uv, kept uv", [f"…/uv/bin/uv {_UV}", f"python {_PIP}"]),
        ("uv", [f"…/path/uv {_UV}"]),
        ("uv, ensurepip", [f"…/path/uv {_UV}", f"…/pip/bin/python {_PIP}"]),
        ("ensurepip, index", [f"…/uv/bin/uv {_UV}", f"…/pip/bin/python {_PIP}"]),
    ],
)
def test_uv_goes_before_pip_wherever_it_can_be_had(
    installers: Any, machine: Machine, has: str, offers: list[str]
) -> None:
    machine.has = set(has.split(", "))
    base = str(installers.base_python())

    assert [offer.replace(base, "python") for offer in machine.usable()] == offers


def test_uv_is_fetched_as_a_wheel_into_the_checkout(machine: Machine) -> None:
    machine.has = {"pip", "index"}

    machine.usable()

    (fetched,) = machine.ran
    assert "--only-binary=:all:" in fetched
    assert f"--target {machine.tools}/uv uv" in fetched


def test_a_machine_with_neither_is_told_what_to_install(installers: Any, machine: Machine) -> None:
    with pytest.raises(installers.SetupError, match="apt install python3-pip"):
        machine.usable()


@pytest.mark.parametrize("setting", ["global.no-index='true'", ":env:.only-binary=':all:'"])
def test_a_setting_that_only_pip_obeys_keeps_uv_out(machine: Machine, setting: str) -> None:
    machine.has = {"pip", "uv", "index"}
    machine.settings = setting

    (only,) = machine.usable()

    assert only.endswith(_PIP)
    assert machine.notices
    assert setting.partition("=")[0].rpartition(".")[2] in machine.notices[0]


@each_row(
    ("listing", "settings"),
    [
        ("global.index-url='a'\n:env:.index-url='b'\n", {"index-url": "b"}),
        (
            ":env:.index-url='b'\nglobal.index-url='a'\ninstall.pre='1'",
            {"index-url": "b", "pre": "1"},
        ),
        ("global.find-links='one\\ntwo'", {"find-links": "one\ntwo"}),
        ("global.no-index='false'\nglobal.pre='0'", {}),
        ("freeze.timeout='3'\nnot a setting\n", {}),
    ],
    ids=["environment last", "whatever the order", "several values", "off", "not of an install"],
)
def test_pip_settings_are_those_that_pip_would_take(
    installers: Any, listing: str, settings: dict[str, str]
) -> None:
    assert installers.parse_pip_settings(listing) == settings


def test_uv_gets_the_indexes_and_constraints_of_pip(installers: Any) -> None:
    settings = {
        "index-url": "a",
        "extra-index-url": "b\nc",
        "find-links": "d e",
        "cert": "f",
        "constraint": "g.txt\nh.txt",
        "build-constraint": "i.txt",
    }

    assert installers.uv_variables({**settings, "timeout": "9"}) == {
        "UV_DEFAULT_INDEX": "a",
        "UV_INDEX": "b c",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_FIND_LINKS": "d,e",
        "SSL_CERT_FILE": "f",
        "UV_CONSTRAINT": "g.txt h.txt",
        "UV_BUILD_CONSTRAINT": "i.txt",
    }


@each_row(
    ("output", "reason"),
    [
        ("ERROR: none of a\nERROR: no a\nerror: subprocess-exited\nnote: see above", "no a"),
        ("error: failed\n  cause: no route\n  cause: no name\n", "no name"),
        ("  No solution found\n  ╰─▶ there is no a\n", "there is no a"),
        ("Looking\nerror: bad\n", "bad"),
        ("Killed\n\n", "Killed"),
        ("", ""),
    ],
    ids=["pip", "uv, causes", "uv, resolution", "error", "other", "silent"],
)
def test_the_reason_is_the_line_that_says_why(installers: Any, output: str, reason: str) -> None:
    assert installers.failure_reason(output) == reason


def test_a_program_is_run_without_what_would_lead_it_elsewhere(
    installers: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTHONPATH", "PIP_TARGET", "UV_INDEX", "TMPDIR"):
        monkeypatch.setenv(name, "of the user")
    runner = installers.CommandRunner(tmp_path, tmp_path, 0)
    runner.clear_files()

    runner.run("env", UV_INDEX="of pip", UV_DEFAULT_INDEX="of pip")

    environment = dict(line.split("=", 1) for line in runner.log_file.read_text().splitlines())
    assert not environment.keys() & {"PYTHONPATH", "PIP_TARGET"}
    assert (environment["UV_INDEX"], environment["UV_DEFAULT_INDEX"]) == ("of the user", "of pip")
    assert [Path(environment[name]).parent for name in ("TMPDIR", "UV_CACHE_DIR")] == [tmp_path] * 2


def test_a_program_that_fails_is_quoted_and_its_output_kept(
    installers: Any, tmp_path: Path
) -> None:
    runner = installers.CommandRunner(tmp_path, tmp_path, 0)
    runner.clear_files()

    with pytest.raises(installers.CommandFailed, match=r"^no disk$"):
        runner.run("sh", "-c", "echo working; echo ERROR: no disk; exit 3")

    assert runner.log_file.read_text() == "working\nERROR: no disk\n"
