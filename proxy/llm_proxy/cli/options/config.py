"""Loads a settings file as the default values of a command."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from llm_proxy.cli.options.declaration import FOLDER
from llm_proxy.cli.options.server import SERVER_NAMES
from llm_proxy.errors import UsageError
from llm_proxy.shell.running.settings import find_config, read_config


def _load_config(ctx: click.Context, _param: click.Parameter, value: Path | None) -> Path | None:
    path = value or find_config(Path.cwd())
    if path is not None:
        settings = read_config(path, SERVER_NAMES)
        options = {param.name: param for param in ctx.command.params}
        ctx.default_map = {
            name: _value_from_file(path, ctx, options[name], setting)
            for name, setting in settings.items()
            if name in options
        }
    return path


def _value_from_file(path: Path, ctx: click.Context, option: click.Parameter, setting: Any) -> Any:
    """A setting as its option takes it; a relative path is relative to the file's folder.

    Raises `UsageError` for one that the option does not take.
    """
    many = option.nargs != 1 or bool(getattr(option, "multiple", False))
    values = setting if isinstance(setting, list) else [setting]
    if isinstance(setting, list) and not many:
        raise UsageError(f"{path}: {option.name} must be one value, not a list")
    if not all(isinstance(value, str | int | float) for value in values):
        raise UsageError(f"{path}: {option.name} holds a value that is neither text nor a number")
    folder = path.parent if option.type is FOLDER else None
    typed = [str(folder / str(value)) if folder else str(value) for value in values]
    try:
        option.type_cast_value(ctx, typed if many else typed[0])
    except click.BadParameter as error:
        raise UsageError(f"{path}: {option.name}: {error.message.rstrip('.')}") from None
    return typed if many else typed[0]


CONFIG: Final = click.option(
    "--config", type=FOLDER, is_eager=True, expose_value=False, callback=_load_config,
    envvar="LLM_PROXY_CONFIG", show_envvar=True,
    help="A settings file.  [default: the nearest llm-proxy.toml or pyproject.toml]",
)  # fmt: skip
