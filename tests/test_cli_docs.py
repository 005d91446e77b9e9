"""The docs cover everything that the command line and the server offer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

import cli_page
from case_tables import each_row
from llm_proxy.cli import cli
from llm_proxy.cli.options import SERVER_OPTIONS, SettingOption, unknown_variables
from llm_proxy.providers import BASE_URL_VARIABLES
from llm_proxy.shell.server import control, intake
from llm_proxy.shell.upstream import signing

DOCS = Path(__file__).parents[1] / "docs"
CLI = (DOCS / "reference" / "cli.md").read_text("utf-8")
SERVER = (DOCS / "reference" / "server.md").read_text("utf-8")


def _command_names(group: click.Group, prefix: str = "") -> Iterator[str]:
    """The commands of a group, including those of its subgroups."""
    for word in group.list_commands(click.Context(group)):
        yield prefix + word
        command = group.get_command(click.Context(group), word)
        if isinstance(command, click.Group):
            yield from _command_names(command, f"{prefix}{word} ")


COMMANDS = list(_command_names(cli))
SERVER_COMMANDS = ("record", "replay", "auto", "simulate", "chaos")
MAX_HELP_LINES = 65


def test_the_commands_are_found() -> None:
    assert {"record", "replay", "auto", "ls", "show", "verify", "recover"} <= set(COMMANDS)
    assert {"scenario", "scenario ls", "scenario lint"} <= set(COMMANDS)


@each_row("name", COMMANDS)
def test_every_command_is_in_the_docs(name: str) -> None:
    assert re.search(rf"\bllm-proxy (\w+ \| )*{name}\b", CLI)


def test_the_page_shows_the_help_of_every_other_command_as_it_is() -> None:
    assert cli_page.with_current_help(CLI) == CLI, (
        "PYTHONPATH=proxy:tests .venv/bin/python tests/cli_page.py writes it anew"
    )
    with_table, groups = (
        {"record", "replay", "auto", "simulate"},
        {"models", "scenario", "llm-test"},
    )
    assert set(cli_page.documented_commands(CLI)) == set(COMMANDS) - with_table - groups


@each_row("name", COMMANDS)
def test_every_option_is_in_the_docs(name: str) -> None:
    options = {
        option
        for parameter in cli_page.find_command(name).params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
        if option.startswith("--")
    }
    assert [option for option in options if not re.search(rf"{option}[`\s]", CLI)] == []


@each_row("option", SERVER_OPTIONS)
def test_every_server_option_has_its_row_with_its_commands(option: SettingOption) -> None:
    name = f"--{option.name.replace('_', '-')}"
    rows = re.findall(rf"(?m)^\| `{name}[` ][^|]*\| ([rpasc]+) \| ", CLI)
    letters = {"record": "r", "replay": "p", "auto": "a", "simulate": "s", "chaos": "c"}
    commands = {
        command
        for command in SERVER_COMMANDS
        if name in {opt for param in cli_page.find_command(command).params for opt in param.opts}
    }
    if commands:
        assert rows == [
            "".join(letter for command, letter in letters.items() if command in commands)
        ]
    else:  # it is described with its command
        assert f"`{name.removeprefix('--')}`" in CLI


@each_row("name", SERVER_COMMANDS)
def test_a_default_in_a_help_text_is_the_default(name: str) -> None:
    for parameter in cli_page.find_command(name).params:
        stated = re.search(
            r"\(default: (\S+)\)|(\S+) \(default\)", getattr(parameter, "help", "") or ""
        )
        if stated and parameter.default is not None and parameter.name not in {"config", "on_miss"}:
            default = parameter.default
            expected = f"{default:g}" if isinstance(default, float) else str(default)
            assert expected in stated.groups()


@each_row("name", COMMANDS)
def test_help_is_short(name: str) -> None:
    assert len(cli_page.help_text(name).splitlines()) <= MAX_HELP_LINES


@each_row("name", ["record", "replay", "auto", "simulate"])
def test_every_choice_is_in_the_docs(name: str) -> None:
    choices = [
        str(choice)
        for parameter in cli_page.find_command(name).params
        if isinstance(parameter.type, click.Choice)
        for choice in parameter.type.choices
    ]
    assert choices
    assert [choice for choice in choices if not re.search(rf"\b{choice}\b", CLI)] == []


@each_row("name", COMMANDS)
def test_every_help_text_teaches_with_examples(name: str) -> None:
    text = cli_page.help_text(name)
    assert re.search(rf"(?m)^\s+Examples?:\n(.*\n)*?\s+llm-proxy {name}\b", text)
    assert "\b" not in text
    assert "\\b" not in text


def test_the_options_in_the_docs_exist() -> None:
    known = {
        option
        for name in COMMANDS
        for parameter in cli_page.find_command(name).params
        for option in parameter.opts
    }
    assert set(re.findall(r"`(--[a-z][a-z-]+)", CLI)) - known - {"--help", "--version"} == set()


def test_every_variable_of_a_child_is_in_the_docs() -> None:
    assert [
        name for name in (*BASE_URL_VARIABLES, "LLM_PROXY_URL", "NO_PROXY") if name not in CLI
    ] == []


def test_every_variable_of_an_option_is_known() -> None:
    variables = {
        str(parameter.envvar)
        for name in COMMANDS
        for parameter in cli_page.find_command(name).params
        if parameter.envvar
    }
    environ = dict.fromkeys(variables | {"LLM_PROXY_URL"}, "x")
    assert len(environ) > 40
    assert unknown_variables(environ) == {}


def test_every_page_of_ours_is_in_the_docs() -> None:
    assert control.__doc__ is not None
    pages = re.findall(r"(GET|POST|PUT|DELETE)\s+(/_proxy/\S+)", control.__doc__)
    assert len(pages) == 14
    assert [page for page in pages if f"`{page[0]} {page[1]}`" not in SERVER] == []


@each_row(
    "kind",
    [
        "cassette_not_found", "cassette_unusable", "scenario_mismatch", "script_exhausted",
        "not_representable", "respond_failed", "upstream_failed", "request_refused",
    ],
)  # fmt: skip
def test_every_error_of_ours_is_in_the_docs(kind: str) -> None:
    assert f"`{kind}`" in SERVER


def test_every_status_of_a_refusal_is_in_the_docs() -> None:
    files = (intake.__file__, signing.__file__)
    sources = "".join(Path(file).read_text("utf-8") for file in files)
    statuses = set(re.findall(r"RequestRefused\(\s*(\d{3})", sources))
    assert {"400", "403", "408", "413", "417", "421", "426", "501", "508"} == statuses
    [row] = [line for line in SERVER.splitlines() if "`request_refused`" in line]
    assert statuses == set(re.findall(r"\b\d{3}\b", row))
