"""Each module can be imported alone, without warnings, and loads no unnecessary modules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import house_rules
import llm_proxy
from case_tables import each_row

PACKAGE: Final = Path(llm_proxy.__file__).parent
SERVER_MODULES: Final = frozenset(("aiohttp", "asyncio", "multidict", "rich", "ssl", "yarl"))
"""Modules that only commands that serve or render may load."""


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a new interpreter that turns every warning into an error."""
    return subprocess.run(
        (sys.executable, "-W", "error", *arguments),
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )


IMPORT_EACH: Final = """
import os, sys
import aiohttp.web, click, msgspec, orjson, rich.console, rich.progress, rich.table  # not ours
import yaml

def visit(name):
    if os.fork() == 0:  # as fresh as a new interpreter, and a hundred times as quick
        try:
            __import__(name)  # after the packages that it lies in, as it always is
        except BaseException:
            print(name, flush=True)
            raise
        for each in names:
            if each.rpartition(".")[0] == name:
                visit(each)
        os._exit(0)
    if os.wait()[1] != 0:
        os._exit(1)

names = sys.argv[1:]
for each in names:
    if each.rpartition(".")[0] not in names:
        visit(each)
"""


def package_modules() -> list[str]:
    packages = (PACKAGE, PACKAGE.parent / house_rules.RUNTIME_PACKAGE)
    return [source.module for folder in packages for source in house_rules.package_sources(folder)]


@pytest.mark.long
@pytest.mark.thorough  # in a daily run, a house rule checks that there are no import cycles
def test_every_module_can_be_imported_alone() -> None:
    result = run_python("-c", IMPORT_EACH, *package_modules())

    assert not result.stdout, f"cannot be imported alone: {result.stdout}{result.stderr}"
    assert result.returncode == 0


IMPORT_ALL: Final = """
import sys
for name in sys.argv[1:]:
    __import__(name)

from llm_proxy.matching.option_grammar import parse_rule
parse_rule("ignore=$.metadata.trace")
"""


def test_the_package_jsonpath_of_another_distribution_changes_nothing(tmp_path: Path) -> None:
    # jsonpath-python, which mistralai needs, overwrites the `jsonpath` of python-jsonpath.
    (tmp_path / "jsonpath").mkdir()
    (tmp_path / "jsonpath" / "__init__.py").write_text("class JSONPath: pass")

    result = run_python(
        "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})" + IMPORT_ALL, *package_modules()
    )

    assert result.returncode == 0, result.stderr


def test_a_module_that_warns_or_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "warns.py").write_text("import warnings; warnings.warn('old', DeprecationWarning)")

    result = run_python(
        "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})" + IMPORT_EACH, "warns"
    )

    assert result.stdout == "warns\n"
    assert "DeprecationWarning: old" in result.stderr


def loaded_modules(*arguments: str) -> set[str]:
    """The modules that a command loads, and their top-level packages."""
    lines = run_python("-X", "importtime", *arguments).stderr.splitlines()
    modules = {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time")}
    return modules | {module.partition(".")[0] for module in modules}


@each_row(
    "arguments",
    [
        ("-c", "import llm_proxy.cli"),
        ("-m", "llm_proxy", "--help"),
        ("-m", "llm_proxy", "--version"),
    ],
)
def test_the_command_line_starts_without_what_serves(arguments: tuple[str, ...]) -> None:
    modules = loaded_modules(*arguments)

    assert "llm_proxy.cli" in modules
    assert not modules & SERVER_MODULES


def test_a_module_that_is_loaded_is_seen() -> None:
    assert {"asyncio", "ssl"} <= loaded_modules("-c", "import asyncio.sslproto")
