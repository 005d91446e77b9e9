"""`scripts/judges` as a developer starts it, with fake judges."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from pathlib import Path

import pytest

import judge_runner
from case_tables import each_row
from scratch_checkout import ROOT, ScratchCheckout, make_scratch_checkout

NPM = """#!/bin/sh
# Plays npm: notes each call, and makes the folder that the real one makes.
echo "$@" >> calls
mkdir -p node_modules/toy
"""

WHEEL = {
    "METADATA": "Metadata-Version: 2.1\nName: toy\nVersion: 2\n",
    "WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
    "RECORD": "",
}


@pytest.fixture
def checkout(tmp_path: Path) -> ScratchCheckout:
    """A checkout with a judge in Python, one in Node, and one that needs no environment."""
    scratch_checkout = make_scratch_checkout(tmp_path)
    for file in ("snake/requirements.txt", "node/package-lock.json", "bare/judge.py"):
        add_judge(scratch_checkout, file)
    (scratch_checkout.root / "tests" / "judges" / "protocol").mkdir()
    put_program(scratch_checkout, "node", "#!/bin/sh\necho v20.1.0\n")
    put_program(scratch_checkout, "npm", NPM)
    return scratch_checkout


def add_judge(checkout: ScratchCheckout, file: str) -> None:
    """Add a judge with this file."""
    path = checkout.root / "tests" / "judges" / file
    path.parent.mkdir()
    path.write_text(f"the lock of {path.parent.name}")


def put_program(checkout: ScratchCheckout, program: str, script: str) -> None:
    """Put a program on PATH."""
    (checkout.path_folder / program).write_text(script)
    (checkout.path_folder / program).chmod(0o755)


def folder(checkout: ScratchCheckout, judge: str) -> Path:
    return checkout.root / "tests" / "judges" / judge


def calls(checkout: ScratchCheckout, judge: str) -> list[str]:
    """The calls of the fake installers in a judge's folder."""
    log = folder(checkout, judge) / "calls"
    return log.read_text().splitlines() if log.exists() else []


def test_each_judge_gets_what_its_lock_says_checked_by_hashes(checkout: ScratchCheckout) -> None:
    code, _, err = checkout.run("judges")

    assert code == 0, err
    (with_uv,) = calls(checkout, "snake")
    assert with_uv.startswith("pip install --python ")
    assert with_uv.endswith("/snake/.venv/bin/python --no-deps -r requirements.txt")
    assert calls(checkout, "node") == ["ci --ignore-scripts --no-audit --no-fund"]
    assert "scripts/judges: bare: in the environment of the tests" in err


@each_row("lock", sorted(judge_runner.FOLDER.glob("*/requirements.txt")))
def test_every_package_of_a_lock_has_its_hashes(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8").replace("\\\n", "")
    packages = [line for line in text.splitlines() if not line.lstrip().startswith("#")]

    assert packages
    assert [line for line in packages if "==" not in line or "--hash=sha256:" not in line] == []


def configure_installer(checkout: ScratchCheckout, installer: str) -> None:
    """Use this machine's real pip, or its real uv if that is the installer.

    Both are configured with a constraints file and find version 2 of a package called toy.
    """
    checkout.use_real_pip()
    checkout.extra_environment["PIP_CONFIG_FILE"] = str(checkout.root / "pip.conf")
    (checkout.root / "pip.conf").write_text(
        f"[global]\nconstraint = {checkout.root}/constraints.txt\nfind-links = {checkout.root}\n"
    )
    with zipfile.ZipFile(checkout.root / "toy-2-py3-none-any.whl", "w") as wheel:
        for name, text in WHEEL.items():
            wheel.writestr(f"toy-2.dist-info/{name}", text)
    (checkout.path_folder / "uv").unlink()
    if installer == "uv":
        bundled = ROOT / ".tools" / "uv" / "bin" / "uv"
        uv = str(bundled) if bundled.exists() else shutil.which("uv")
        if uv is None:
            pytest.skip("this machine has no uv")
        (checkout.path_folder / "uv").symlink_to(uv)


CONSTRAINTS = {
    "agree": ("toy<=2\nother<1\n", True, "installed in "),
    "contradict": ("other<1\ntoy<2\n", True, "NOT installed: "),
    "pin another": ("toy==1\n", True, "NOT installed: "),
    "agree, but another package has that name": ("toy<=2\n", False, "NOT installed: "),
}


@pytest.mark.parametrize(
    ("installer", "constraints", "intact", "ends"),
    [
        pytest.param(
            installer,
            *row,
            id=f"{installer}: {name}",
            marks=() if (installer, name) == ("uv", "agree") else pytest.mark.thorough,
        )
        for installer in ("uv", "pip")
        for name, row in CONSTRAINTS.items()
    ],
)
def test_a_lock_is_installed_within_the_constraints_of_the_machine(
    checkout: ScratchCheckout, installer: str, constraints: str, intact: bool, ends: str
) -> None:
    configure_installer(checkout, installer)
    (checkout.root / "constraints.txt").write_text(constraints)
    wheel = (checkout.root / "toy-2-py3-none-any.whl").read_bytes()
    digest = hashlib.sha256(wheel if intact else b"").hexdigest()
    lock = folder(checkout, "snake") / "requirements.txt"
    lock.write_text(f"toy==2 \\\n    --hash=sha256:{digest}\n")

    code, _, err = checkout.run("judges", "snake")

    if "has no pip" in err:
        pytest.skip("this machine has no pip")
    assert f"snake: installing with {installer} …" in err
    assert err.splitlines()[-1].startswith(f"scripts/judges: snake: {ends}")
    assert code == (0 if ends.startswith("installed") else 1)
    installed = folder(checkout, "snake").glob(".venv/lib/python*/site-packages/toy-2.dist-info")
    assert len(list(installed)) == (code == 0)


def test_a_second_run_installs_nothing(checkout: ScratchCheckout) -> None:
    checkout.run("judges")
    code, _, err = checkout.run("judges")

    assert code == 0
    assert "snake: installed\n" in err
    assert [len(calls(checkout, item)) for item in ("snake", "node")] == [1, 1]


def test_a_lock_that_changed_is_installed_anew(checkout: ScratchCheckout) -> None:
    checkout.run("judges")
    (folder(checkout, "snake") / "requirements.txt").write_text("another lock")
    checkout.run("judges")

    assert [len(calls(checkout, item)) for item in ("snake", "node")] == [2, 1]


def test_only_those_that_are_named_are_installed(checkout: ScratchCheckout) -> None:
    checkout.run("judges", "node")

    assert [len(calls(checkout, item)) for item in ("snake", "node")] == [0, 1]


def test_the_list_says_what_is_installed(checkout: ScratchCheckout) -> None:
    checkout.run("judges", "node")
    code, out, err = checkout.run("judges", "--list")

    assert (code, err) == (0, "")
    assert [line.split(maxsplit=1) for line in out.splitlines()] == [
        ["bare", "in the environment of the tests"],
        ["node", "installed"],
        ["snake", "not installed: scripts/judges snake"],
    ]


def test_an_unknown_judge_is_refused_with_the_known_names(checkout: ScratchCheckout) -> None:
    code, out, err = checkout.run("judges", "nobody")

    assert (code, out) == (2, "")
    assert err == "scripts/judges: no judge is called nobody; there are bare, node, snake\n"


def test_a_judge_that_fails_is_reported_and_the_others_are_installed(
    checkout: ScratchCheckout,
) -> None:
    put_program(checkout, "node", "#!/bin/sh\necho v18.20.4\n")
    code, _, err = checkout.run("judges")

    assert code == 1
    assert "node: NOT installed: this machine has Node 18: install Node 20 or newer" in err
    assert "snake: installed in " in err
    assert not (folder(checkout, "node") / "node_modules").exists()


def test_an_unfinished_environment_is_not_taken_for_installed(checkout: ScratchCheckout) -> None:
    put_program(checkout, "npm", NPM + "echo the registry is down >&2; exit 1\n")
    code, _, err = checkout.run("judges", "node")
    assert (code, "NOT installed: the registry is down" in err) == (1, True)

    put_program(checkout, "npm", NPM)
    assert checkout.run("judges", "node")[0] == 0
    assert len(calls(checkout, "node")) == 2


def test_an_installed_judge_is_available_to_the_tests(
    checkout: ScratchCheckout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_runner, "FOLDER", checkout.root / "tests" / "judges")
    missing = judge_runner.missing_reason.__wrapped__  # without its cache
    assert missing("snake") == "judge snake is not installed: scripts/judges snake"
    checkout.run("judges")
    monkeypatch.setenv("PATH", str(checkout.path_folder))

    assert [missing(item) for item in ("snake", "node", "bare")] == ["", "", ""]


def test_a_node_judge_is_not_available_without_node(
    checkout: ScratchCheckout, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout.run("judges")
    monkeypatch.setattr(judge_runner, "FOLDER", checkout.root / "tests" / "judges")
    monkeypatch.setenv("PATH", str(checkout.root))

    missing = judge_runner.missing_reason.__wrapped__
    assert missing("node") == "judge node: there is no node"
    assert [missing(item) for item in ("snake", "bare")] == ["", ""]


def run_checks(checkout: ScratchCheckout, *arguments: str) -> tuple[str, str]:
    """Run `scripts/test`, in which everything passes; return its stdout and stderr."""
    code, out, err = checkout.run("test", *arguments)
    assert code == 0
    assert "\npytest -n 3" in out
    return out, err


def test_the_checks_install_the_judges_of_their_tier_that_the_machine_can_run(
    checkout: ScratchCheckout,
) -> None:
    add_judge(checkout, "cohere/requirements.txt")
    node = checkout.path_folder / "node"
    node.rename(checkout.root / "node")

    assert "── judges: cohere\n" in run_checks(checkout)[0]
    assert "── judges: snake\n" in run_checks(checkout, "--thorough")[0]
    (checkout.root / "node").rename(node)
    assert "── judges: node\n" in run_checks(checkout, "--thorough")[0]
    out, err = run_checks(checkout, "--thorough")
    assert ("judges" in out, err) == (False, "")
    assert [len(calls(checkout, item)) for item in ("cohere", "snake", "node")] == [1, 1, 1]


def test_the_checks_go_on_without_judges_that_cannot_be_installed(
    checkout: ScratchCheckout,
) -> None:
    daily = ("boto3", "cohere", "google-genai")
    for name in daily:
        add_judge(checkout, f"{name}/requirements.txt")
    (folder(checkout, "cohere") / "uv-fails").touch()

    out, err = run_checks(checkout)

    assert "scripts/judges: cohere: NOT installed: pip says: this pip installs nothing" in err
    assert "scripts/test: going on without cohere google-genai, whose tests are skipped\n" in out
    assert [len(calls(checkout, item)) for item in daily] == [1, 1, 0]
