"""A scratch checkout: this project's launchers over a toy project, without any package index."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
_SCRIPTS: Final = (
    "bootstrap.py",
    "checks.py",
    "demo",
    "judge_environments.py",
    "judges",
    "launcher.py",
    "test",
)

_PYPROJECT: Final = """
[build-system]
requires = []
build-backend = "toy_backend"
backend-path = ["."]

[project]
name = "toy"
version = "1"
dependencies = ["toy-base"]
optional-dependencies.dev = ["toy-linter>=2", "toy-tester"]
"""

_BACKEND: Final = """
import zipfile
FILES = {
    "toy.py": "import sys\\ndef main(): print('toy', *sys.argv[1:])\\n",
    "toy-1.dist-info/METADATA": "Metadata-Version: 2.1\\nName: toy\\nVersion: 1\\n",
    "toy-1.dist-info/WHEEL": "Wheel-Version: 1.0\\nTag: py3-none-any\\n",
    "toy-1.dist-info/entry_points.txt": "[console_scripts]\\nllm-proxy = toy:main\\n",
    "toy-1.dist-info/RECORD": "",
}

def build_editable(folder, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(f"{folder}/toy-1-py3-none-any.whl", "w") as wheel:
        for name, text in FILES.items():
            wheel.writestr(name, text)
    return "toy-1-py3-none-any.whl"
"""

_FAKE_UV: Final = """#!/bin/sh
# Plays uv: notes each call, and puts programs that echo their arguments into the environment.
[ "$1" = --version ] && exit 0
echo "$@" >> calls
if [ -p started ]; then echo $$ > started; read _ < gate; fi
if [ -e uv-fails ]; then echo "error: the index is down" >&2; exit 2; fi
for program in llm-proxy pytest ruff mypy; do
  [ -e "no-$program" ] && continue
  printf '#!/bin/sh\\necho %s "$@"; [ ! -e %s-fails ]\\n' $program $program > .venv/bin/$program
  chmod +x .venv/bin/$program
done
"""


_FAKE_PIP: Final = """
import sys
if "install" in sys.argv:
    sys.exit("ERROR: this pip installs nothing")
"""
"""A pip that works and has no settings: the real one takes longer to start than all else here."""

_TOOLS: Final = ("bash", "cat", "chmod", "dirname", "env", "mkdir", "sh")
"""The programs that the scripts and the fake programs start."""


@dataclass(frozen=True, slots=True)
class ScratchCheckout:
    """A scratch checkout with the programs of a bare system, and a fake uv and pip."""

    root: Path
    path_folder: Path
    """The only folder on its PATH."""
    extra_environment: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """All environment variables of the processes started here."""
        return {
            "HOME": str(self.root),
            "XDG_CONFIG_HOME": str(self.root),
            "XDG_CONFIG_DIRS": str(self.root),
            "PATH": str(self.path_folder),
            "PYTHONUSERBASE": str(self.user_base),
            "PIP_CONFIG_FILE": os.devnull,  # then pip reads no other file either
            "PIP_INDEX_URL": (self.root / "no-index").as_uri(),
            "PIP_NO_CACHE_DIR": "1",
            **self.extra_environment,
        }

    @property
    def user_base(self) -> Path:
        """The folder of the packages that its user has installed: a fake pip."""
        return self.root.with_name("user")

    def use_real_pip(self) -> None:
        """Use this machine's pip, configured by no file and with an empty index."""
        self.extra_environment["PYTHONNOUSERSITE"] = "1"

    def start(self, script: str, *arguments: str) -> subprocess.Popen[str]:
        """Start a launcher as a user would, from the root of the checkout."""
        return subprocess.Popen(
            (sys.executable, f"scripts/{script}", *arguments),
            cwd=self.root,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, script: str, *arguments: str) -> tuple[int, str, str]:
        """Run a launcher to its end; return its exit code, stdout and stderr."""
        with self.start(script, *arguments) as process:
            out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def uv_calls(self) -> list[str]:
        """The arguments after the interpreter of each call of the fake uv."""
        call_log = self.root / "calls"
        lines = call_log.read_text().splitlines() if call_log.exists() else []
        return [line.partition("/.venv/bin/python ")[2] for line in lines]


def make_scratch_checkout(folder: Path) -> ScratchCheckout:
    """Make a scratch checkout below this folder."""
    root, path_folder = folder / "checkout", folder / "path"
    (root / "scripts").mkdir(parents=True)
    (root / "tests" / "judges").mkdir(parents=True)
    for name in _SCRIPTS:
        shutil.copy(ROOT / "scripts" / name, root / "scripts" / name)
    (root / "pyproject.toml").write_text(_PYPROJECT)
    (root / "toy_backend.py").write_text(_BACKEND)
    path_folder.mkdir()
    for tool in _TOOLS:
        (path_folder / tool).symlink_to(shutil.which(tool) or f"no {tool} on PATH")
    (path_folder / "uv").write_text(_FAKE_UV)
    (path_folder / "uv").chmod(0o755)
    checkout = ScratchCheckout(root, path_folder)
    user_packages = sysconfig.get_path(
        "purelib", sysconfig.get_preferred_scheme("user"), {"userbase": str(checkout.user_base)}
    )
    pip = Path(user_packages, "pip", "__main__.py")
    pip.parent.mkdir(parents=True)
    pip.with_name("__init__.py").touch()
    pip.write_text(_FAKE_PIP)
    return checkout
