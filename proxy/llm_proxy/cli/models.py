"""`models`: lists, downloads, shows and deletes the models of a provider."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, TypeVar

import click

from llm_chat import (
    ChatError,
    ManagesModels,
    ProviderRegistry,
    UnknownModel,
    providers_from_environment,
)
from llm_proxy import display
from llm_proxy.cli.commands import CommandEntry, LazyCommandGroup
from llm_proxy.cli.interruption import run_until_signal
from llm_proxy.cli.options import json_option
from llm_proxy.cli.output import (
    StyledText,
    TableColumn,
    print_json,
    print_lines,
    print_note,
    print_table,
)
from llm_proxy.errors import LlmProxyError, UsageError, name_hint

T = TypeVar("T")

_COMMANDS: Final = MappingProxyType(
    {
        "ls": CommandEntry("models", "List models."),
        "pull": CommandEntry("models_pull", "Download a model."),
        "show": CommandEntry("models", "Show the properties of a model."),
        "rm": CommandEntry("models", "Delete models."),
    }
)
_LS_COLUMNS: Final = (
    TableColumn("model"),
    TableColumn("size", is_right_aligned=True),
    TableColumn("modified (UTC)", drop_priority=1),
)

provider_option = click.option(
    "-p", "--provider", metavar="PROVIDER", help="Provider of the models.  [default: ollama]"
)


@click.group(cls=LazyCommandGroup, sections={"Commands": _COMMANDS})
def models() -> None:
    r"""List, download, show and delete the models of an Ollama server.

    The server's address comes from OLLAMA_HOST; the default is 127.0.0.1:11434.

    \b
    Examples:
      llm-proxy models pull llama3.2
      llm-proxy models ls
      llm-proxy chat -p ollama -m llama3.2 "Why is the sky blue?"
    """


@click.command
@provider_option
@json_option
def ls(provider: str | None, *, as_json: bool) -> None:
    r"""List the models that the server has stored.

    \b
    Examples:
      llm-proxy models ls
      llm-proxy models ls --json | jq -r '.models[].name'
    """
    found = run_with_models(provider, lambda manager: manager.list_models())
    if as_json:
        print_json({"models": [model.document for model in found]})
        return
    rows = [
        (
            model.name,
            "" if model.size_bytes is None else display.format_size(model.size_bytes),
            _utc_time(model.modified_at),
        )
        for model in found
    ]
    if rows:
        print_table(_LS_COLUMNS, rows)
    size = display.format_size(sum(model.size_bytes or 0 for model in found))
    print_note(f"{display.count_with_noun(len(rows), 'model')}, {size}")


@click.command
@click.argument("model")
@provider_option
@json_option
def show(model: str, provider: str | None, *, as_json: bool) -> None:
    r"""Show the properties of a model.

    The output includes the family, the number of parameters, the quantisation, the context length
    in tokens, the capabilities and the template. With --json, the output is the server's response.

    \b
    Examples:
      llm-proxy models show llama3.2
      llm-proxy models show llama3.2 --json | jq .capabilities
    """

    async def show_model(manager: ManagesModels) -> None:
        found = await _of_known_model(manager, model, manager.show_model)
        if as_json:
            print_json(found.document)
            return
        print_lines([StyledText(model, "bold")])
        properties = dict(found.properties)
        if found.modified_at:
            properties["modified"] = f"{_utc_time(found.modified_at)} UTC"
        width = max(map(len, properties), default=0)
        for name, text in properties.items():
            first_line, *lines = text.splitlines() or [""]
            label = StyledText(name.ljust(width), "dim")
            print_lines([("  ", label, "  ", first_line)])
            print_lines(" " * (width + 4) + line for line in lines)

    run_with_models(provider, show_model)


@click.command
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@provider_option
def rm(models: tuple[str, ...], provider: str | None) -> None:
    r"""Delete models from the server.

    The command stops at the first model that cannot be deleted.

    \b
    Examples:
      llm-proxy models rm llama3.2
      llm-proxy models rm llama3.2:1b qwen3:8b
    """

    async def delete_models(manager: ManagesModels) -> None:
        for model in models:
            await _of_known_model(manager, model, manager.delete_model)
            print_note(f"deleted {display.escape_line(model)}")

    run_with_models(provider, delete_models)


def run_with_models(provider: str | None, use: Callable[[ManagesModels], Awaitable[T]]) -> T:
    """Run `use` with a provider of this name; None is the first that manages models.

    Raises `UsageError` for another name, and `LlmProxyError` if the provider fails.
    """

    async def run() -> T:
        async with aclosing(providers_from_environment()) as registry:
            return await use(_model_manager(registry, provider))

    try:
        return run_until_signal(run())
    except ChatError as error:
        raise LlmProxyError(str(error)) from error


def _model_manager(registry: ProviderRegistry, name: str | None) -> ManagesModels:
    managers: dict[str, ManagesModels] = {}
    for known_name in registry.list():
        provider: object = registry.get(known_name)
        if isinstance(provider, ManagesModels):
            managers[known_name] = provider
    if name is None:
        return next(iter(managers.values()))
    if name in managers:
        return managers[name]
    if registry.get(name) is not None:
        raise UsageError(
            f"{name} does not manage models; set --provider to {' or '.join(managers)}"
        )
    raise UsageError(f"unknown provider {name!r}; {name_hint(name, managers)}")


async def _of_known_model(
    manager: ManagesModels, name: str, request: Callable[[str], Awaitable[T]]
) -> T:
    """The result of a request for a model.  Raises `UsageError` with a hint for an unknown one."""
    try:
        return await request(name)
    except UnknownModel:
        known = [model.name for model in await manager.list_models()]
        hint = name_hint(name, known) if known else "run llm-proxy models pull to download a model"
        raise UsageError(f"unknown model {name!r}; {hint}") from None


def _utc_time(text: str) -> str:
    """A time of RFC 3339 in minutes of UTC; another text unchanged."""
    with suppress(ValueError, OverflowError):
        return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M}"
    return text
