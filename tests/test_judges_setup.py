"""`scripts/judges` as a developer starts it, over judges that do not exist."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from pathlib import Path

import pytest

import judge_runner
from scratch_checkout import ROOT, Scratch, scratch

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

SKIPPED = "skipped: its lock pins toy==2, and pip is configured on this machine with"


@pytest.fixture
def checkout(tmp_path: Path) -> Scratch:
    """A checkout with a judge in Python, one in Node, and one that needs no environment."""
    made = scratch(tmp_path)
    for name in ("judges", "judge_environments.py"):
        shutil.copy(ROOT / "scripts" / name, made.root / "scripts" / name)
    for file in ("snake/requirements.txt", "node/package-lock.json", "bare/judge.py"):
        path = made.root / "tests" / "judges" / file
        path.parent.mkdir(parents=True)
        path.write_text(f"the lock of {path.parent.name}")
    (made.root / "tests" / "judges" / "protocol").mkdir()
    play(made, "node", "#!/bin/sh\necho v20.1.0\n")
    play(made, "npm", NPM)
    return made


def play(checkout: Scratch, program: str, script: str) -> None:
    """Put a program on PATH."""
    (checkout.path / program).write_text(script)
    (checkout.path / program).chmod(0o755)


def folder(checkout: Scratch, judge: str) -> Path:
    return checkout.root / "tests" / "judges" / judge


def calls(checkout: Scratch, judge: str) -> list[str]:
    """What the played installers were asked for in the folder of a judge."""
    noted = folder(checkout, judge) / "calls"
    return noted.read_text().splitlines() if noted.exists() else []


def test_each_judge_gets_what_its_lock_says_checked_by_hashes(checkout: Scratch) -> None:
    code, _, err = checkout.run("judges")

    assert code == 0, err
    (with_uv,) = calls(checkout, "snake")
    assert with_uv.startswith("pip install --python ")
    assert with_uv.endswith("/snake/.venv/bin/python --no-deps -r requirements.txt")
    assert calls(checkout, "node") == ["ci --ignore-scripts --no-audit --no-fund"]
    assert "scripts/judges: bare: in the environment of the tests" in err


@pytest.mark.parametrize(
    "lock", sorted(judge_runner.FOLDER.glob("*/requirements.txt")), ids=lambda it: it.parent.name
)
def test_every_package_of_a_lock_has_its_hashes(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8").replace("\\\n", "")
    packages = [line for line in text.splitlines() if not line.lstrip().startswith("#")]

    assert packages
    assert [line for line in packages if "==" not in line or "--hash=sha256:" not in line] == []


def offer(checkout: Scratch, installer: str) -> None:
    """Have the real pip on this machine, and the real uv where that is the installer.

    Both are configured with a file of constraints, and find a package called toy, at its version 2.
    """
    checkout.environ["PIP_CONFIG_FILE"] = str(checkout.root / "pip.conf")
    (checkout.root / "pip.conf").write_text(
        f"[global]\nconstraint = {checkout.root}/constraints.txt\nfind-links = {checkout.root}\n"
    )
    with zipfile.ZipFile(checkout.root / "toy-2-py3-none-any.whl", "w") as wheel:
        for name, text in WHEEL.items():
            wheel.writestr(f"toy-2.dist-info/{name}", text)
    (checkout.path / "uv").unlink()
    if installer == "uv":
        kept = ROOT / ".tools" / "uv" / "bin" / "uv"
        real = str(kept) if kept.exists() else shutil.which("uv")
        if real is None:
            pytest.skip("this machine has no uv")
        (checkout.path / "uv").symlink_to(real)


@pytest.mark.parametrize("installer", ["uv", "pip"])
@pytest.mark.parametrize(
    ("constraints", "intact", "ends"),
    [
        ("toy<=2\nother<1\n", True, "installed in "),
        ("other<1\ntoy<2\n", True, f"{SKIPPED} toy<2"),
        ("toy==1\n", True, f"{SKIPPED} toy==1"),
        ("toy<=2\n", False, "NOT installed: "),
    ],
    ids=["agrees", "contradicts", "pins another", "another package under that name"],
)
def test_a_lock_is_installed_within_the_constraints_of_the_machine(
    checkout: Scratch, installer: str, constraints: str, intact: bool, ends: str
) -> None:
    offer(checkout, installer)
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


def test_a_second_run_installs_nothing(checkout: Scratch) -> None:
    checkout.run("judges")
    code, _, err = checkout.run("judges")

    assert code == 0
    assert "snake: installed\n" in err
    assert [len(calls(checkout, item)) for item in ("snake", "node")] == [1, 1]


def test_a_lock_that_changed_is_installed_anew(checkout: Scratch) -> None:
    checkout.run("judges")
    (folder(checkout, "snake") / "requirements.txt").write_text("another lock")
    checkout.run("judges")

    assert [len(calls(checkout, item)) for item in ("snake", "node")] == [2, 1]


def test_only_those_that_are_named_are_installed(checkout: Scratch) -> None:
    checkout.run("judges", "node")

    assert [len(calls(checkout, item)) for item in ("snake", "node")] == [0, 1]


def test_the_list_says_what_is_installed(checkout: Scratch) -> None:
    checkout.run("judges", "node")
    code, out, err = checkout.run("judges", "--list")

    assert (code, err) == (0, "")
    assert [line.split(maxsplit=1) for line in out.splitlines()] == [
        ["bare", "in the environment of the tests"],
        ["node", "installed"],
        ["snake", "not installed: scripts/judges snake"],
    ]


def test_a_name_that_is_no_judges_is_refused_with_those_that_are(checkout: Scratch) -> None:
    code, out, err = checkout.run("judges", "nobody")

    assert (code, out) == (2, "")
    assert err == "scripts/judges: no judge is called nobody; there are bare, node, snake\n"


def test_one_that_fails_is_told_and_the_others_are_installed(checkout: Scratch) -> None:
    play(checkout, "node", "#!/bin/sh\necho v18.20.4\n")
    code, _, err = checkout.run("judges")

    assert code == 1
    assert "node: NOT installed: this machine has Node 18: install Node 20 or newer" in err
    assert "snake: installed in " in err
    assert not (folder(checkout, "node") / "node_modules").exists()


def test_an_environment_that_was_not_finished_is_not_believed(checkout: Scratch) -> None:
    play(checkout, "npm", NPM + "echo the registry is down >&2; exit 1\n")
    code, _, err = checkout.run("judges", "node")
    assert (code, "NOT installed: the registry is down" in err) == (1, True)

    play(checkout, "npm", NPM)
    assert checkout.run("judges", "node")[0] == 0
    assert len(calls(checkout, "node")) == 2


def test_what_is_installed_here_is_at_hand_for_the_tests(
    checkout: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_runner, "FOLDER", checkout.root / "tests" / "judges")
    missing = judge_runner.missing.__wrapped__  # what is asked twice would be answered once
    assert missing("snake") == "judge snake is not installed: scripts/judges snake"
    checkout.run("judges")
    monkeypatch.setenv("PATH", str(checkout.path))

    assert [missing(item) for item in ("snake", "node", "bare")] == ["", "", ""]


def test_a_program_of_node_is_not_at_hand_where_there_is_no_node(
    checkout: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout.run("judges")
    monkeypatch.setattr(judge_runner, "FOLDER", checkout.root / "tests" / "judges")
    monkeypatch.setenv("PATH", str(checkout.root))

    missing = judge_runner.missing.__wrapped__
    assert missing("node") == "judge node: there is no node"
    assert [missing(item) for item in ("snake", "bare")] == ["", ""]
