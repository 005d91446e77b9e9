"""`llm-proxy llm-test` and `schema llm-test`: check definitions, list tools."""

from __future__ import annotations

import json
from pathlib import Path

from cli_process import run_command
from llm_pytest.models import definition_schema

VALID = "name: Checkout\nsteps:\n  - {name: Pay, do: Pay., expect: It is paid.}\n"
DOUBTFUL = "name: b\nsteps:\n  - {name: Pay, do: Pay.}\n"
INVALID = "nam: c\nsteps: []\n"
WARNING = (
    "tests/llm/b.yaml:3:5: $.steps[0]: the step has no expectation; add expect, or the step proves "
    "nothing (warning)"
)
PLUGIN = '''
from llm_pytest.plugin_base import LLMPlugin

class Shop(LLMPlugin):
    async def stock(self, item: int, place: str = "") -> int:
        """How many are left.

        More.
        """
        return 1
'''


def write_tests(folder: Path, **texts: str) -> None:
    (folder / "tests" / "llm").mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / "tests" / "llm" / f"{name}.yaml").write_text(text, "utf-8")


def write_plugin(folder: Path, text: str = PLUGIN) -> None:
    (folder / "tests" / "llm" / "plugins").mkdir(parents=True, exist_ok=True)
    (folder / "tests" / "llm" / "plugins" / "shop.py").write_text(text, "utf-8")


async def test_lint_finds_no_problems(tmp_path: Path) -> None:
    write_tests(tmp_path, a=VALID)
    write_plugin(tmp_path)

    result = await run_command("llm-test", "lint", folder=tmp_path)

    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "llm-proxy: 1 test checked, no problems found\n"


async def test_lint_prints_errors_and_warnings(tmp_path: Path) -> None:
    write_tests(tmp_path, a=VALID, b=DOUBTFUL, c=INVALID)
    write_plugin(tmp_path, "import missing_package\n")

    result = await run_command("llm-test", "lint", folder=tmp_path)

    plugin = tmp_path.resolve() / "tests" / "llm" / "plugins" / "shop.py"
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "tests/llm/c.yaml:1:1: $.nam: unknown field 'nam'; did you mean 'name'?",
        "tests/llm/c.yaml:2:8: $.steps: the list is empty; add at least one item",
        f"{plugin}: cannot load the plugin: ModuleNotFoundError: No module named 'missing_package'",
        WARNING,
    ]
    assert result.stderr == "llm-proxy: 3 errors and 1 warning found; 2 tests loaded\n"


async def test_warnings_fail_with_strict(tmp_path: Path) -> None:
    write_tests(tmp_path, b=DOUBTFUL)

    assert (await run_command("llm-test", "lint", folder=tmp_path)).exit_code == 0
    result = await run_command("llm-test", "lint", "--strict", "tests/llm/b.yaml", folder=tmp_path)
    assert (result.exit_code, result.stdout) == (1, f"{WARNING}\n")


async def test_lint_prints_a_document(tmp_path: Path) -> None:
    write_tests(tmp_path, b=DOUBTFUL)

    result = await run_command("llm-test", "lint", "--json", folder=tmp_path)

    document = json.loads(result.stdout)
    assert (document["ok"], document["tests"]) == (True, 1)
    assert document["problems"] == [
        {
            "file": "tests/llm/b.yaml",
            "line": 3,
            "column": 5,
            "path": "$.steps[0]",
            "message": "the step has no expectation; add expect, or the step proves nothing",
            "severity": "warning",
        }
    ]


async def test_lint_needs_a_definition(tmp_path: Path) -> None:
    missing = await run_command("llm-test", "lint", folder=tmp_path)
    write_tests(tmp_path)
    empty = await run_command("llm-test", "lint", folder=tmp_path)

    assert (missing.exit_code, missing.stderr) == (
        2,
        "llm-proxy: error: no such file or folder: tests/llm\n",
    )
    assert (empty.exit_code, empty.stderr) == (
        2,
        (
            "llm-proxy: error: no test definitions in tests/llm; add a file that matches *.yaml, "
            "*.yml\n"
        ),
    )


async def test_tools_lists_the_tools_of_plugins(tmp_path: Path) -> None:
    write_plugin(tmp_path)
    folder = tmp_path / "elsewhere"
    folder.mkdir()

    result = await run_command("llm-test", "tools", "--project-root", "..", folder=folder)

    assert result.exit_code == 0
    assert "shop_stock(item, place?, step, label?)\n    How many are left.\n" in result.stdout
    document = json.loads(
        (await run_command("llm-test", "tools", "--json", folder=tmp_path)).stdout
    )
    [tool] = [tool for tool in document["tools"] if tool["name"] == "shop_stock"]
    assert set(tool) == {"name", "description", "inputSchema"}


async def test_a_plugin_that_fails_is_one_sentence(tmp_path: Path) -> None:
    write_plugin(tmp_path, "1 / 0\n")

    result = await run_command("llm-test", "tools", folder=tmp_path)

    assert result.exit_code == 1
    assert result.stderr.endswith(
        "shop.py: cannot load the plugin: ZeroDivisionError: division by zero\n"
    )


async def test_the_schema_is_printed(tmp_path: Path) -> None:
    result = await run_command("schema", "llm-test", folder=tmp_path)

    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout) == json.loads(json.dumps(definition_schema()))
