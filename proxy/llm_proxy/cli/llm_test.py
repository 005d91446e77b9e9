"""`llm-test`: checks the definitions of tests that a model runs, and lists their tools.

Optional dependencies are imported when a command runs.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click

from llm_proxy.cli.commands import CommandEntry, LazyCommandGroup
from llm_proxy.cli.lint_report import STRICT_OPTION, report_problems
from llm_proxy.cli.options import json_option
from llm_proxy.cli.output import StyledText, print_json, print_lines, print_note
from llm_proxy.display import count_with_noun, path_as_unicode_text
from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.scenario.documents.mistakes import ROOT_PATH, DocumentMistake

if TYPE_CHECKING:
    from llm_pytest.toolset import ToolSet

_COMMANDS: Final = MappingProxyType(
    {
        "lint": CommandEntry("llm_test", "Check test definitions and plugins."),
        "tools": CommandEntry("llm_test", "List the tools of the tests."),
    }
)
_DEFINITIONS_FOLDER: Final = Path("tests") / "llm"
_ROOT_OPTION: Final = click.option(
    "--project-root",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(),
    metavar="DIR",
    help="Folder that has tests/llm/plugins (default: the current folder).",
)


@click.group(cls=LazyCommandGroup, sections={"Commands": _COMMANDS})
def llm_test() -> None:
    r"""Check the definitions of tests that a model runs, and list their tools.

    A test definition is a YAML file that pytest --llm runs. The fields are described in
    docs/reference/llm-tests.md. To print their JSON Schema, run llm-proxy schema llm-test.

    \b
    Examples:
      llm-proxy llm-test lint
      llm-proxy llm-test tools
    """


@click.command
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@_ROOT_OPTION
@STRICT_OPTION
@json_option
def lint(paths: tuple[Path, ...], project_root: Path, *, strict: bool, as_json: bool) -> None:
    r"""Check test definitions and plugins.

    PATHS are definitions and folders. The default is tests/llm in the project root. In a folder,
    all YAML files are checked, except files and folders whose name starts with . or _, and folders
    named plugins. Each problem is printed as FILE:LINE:COLUMN: PATH: MESSAGE. Warnings end with
    "(warning)". The exit code is 1 if any error is found.

    The plugins in tests/llm/plugins are imported, so their code runs.

    \b
    Examples:
      llm-proxy llm-test lint
      llm-proxy llm-test lint tests/llm/checkout.yaml --strict
      llm-proxy llm-test lint --json | jq -r '.problems[].message'
    """
    from llm_pytest.definitions import (  # noqa: PLC0415 # needs an extra
        DefinitionError,
        definition_files,
        read_definition,
    )
    from llm_pytest.linting import lint_definition  # noqa: PLC0415 # needs an extra

    paths = paths or (project_root / _DEFINITIONS_FOLDER,)
    for path in paths:
        if not path.exists():
            raise UsageError(f"no such file or folder: {path_as_unicode_text(path)}")
    files = definition_files(paths)
    if not files:
        names = ", ".join(map(path_as_unicode_text, paths))
        raise UsageError(f"no test definitions in {names}; add a file that matches *.yaml, *.yml")
    problems: list[DocumentMistake] = []
    test_count = 0
    for path in files:
        try:
            spec, found = lint_definition(path_as_unicode_text(path), read_definition(path))
        except DefinitionError as error:
            spec, found = None, error.mistakes
        problems += found
        test_count += spec is not None
    try:
        _load_tools(project_root)
    except LlmProxyError as error:
        place, _, message = str(error).partition(": ")
        problems.append(DocumentMistake(place, 0, 0, ROOT_PATH, message))
    raise click.exceptions.Exit(
        report_problems(problems, "test", test_count, strict=strict, as_json=as_json)
    )


@click.command
@_ROOT_OPTION
@json_option
def tools(project_root: Path, *, as_json: bool) -> None:
    r"""List the tools of the tests.

    The list contains http_*, assert_*, and the tools of the plugins in tests/llm/plugins, with
    their parameters. Optional parameters end with "?". The plugins are imported, so their code
    runs.

    \b
    Examples:
      llm-proxy llm-test tools
      llm-proxy llm-test tools --json | jq -r '.tools[].name'
    """
    definitions = _load_tools(project_root).definitions()
    if as_json:
        print_json({"tools": definitions})
        return
    for definition in definitions:
        description = str(definition["description"] or "").strip().partition("\n")[0]
        signature = f"{definition['name']}({_parameters_text(definition['inputSchema'])})"
        print_lines([signature, StyledText(f"    {description}", "dim")])
    print_note(count_with_noun(len(definitions), "tool"))


def _load_tools(project_root: Path) -> ToolSet:
    """The tools of a project.  Raises `LlmProxyError` if a plugin cannot be used."""
    from llm_pytest.toolset import make_toolset  # noqa: PLC0415 # imports asyncio

    return make_toolset(project_root.resolve())


def _parameters_text(schema: dict[str, Any]) -> str:
    """The parameters of a tool: `url, headers?`."""
    required = schema.get("required", ())
    return ", ".join(
        name if name in required else f"{name}?" for name in schema.get("properties", {})
    )
