"""Loads a settings file as the default values of a command."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from llm_proxy.cli.options.declaration import PATH_TYPE
from llm_proxy.cli.options.server import CONFIG_SETTING_NAMES
from llm_proxy.errors import UsageError
from llm_proxy.shell.running.settings import find_config, read_config


def _load_config(ctx: click.Context, _param: click.Parameter, value: Path | None) -> Path | None:
    path = value or find_config(Path.cwd())
    if path is not None:
        settings_in_file = read_config(path, CONFIG_SETTING_NAMES)
        params_by_name = {param.name: param for param in ctx.command.params}
        ctx.default_map = {
            name: _option_value_from_setting(path, ctx, params_by_name[name], setting)
            for name, setting in settings_in_file.items()
            if name in params_by_name
        }
    return path


def _option_value_from_setting(
    path: Path, ctx: click.Context, option: click.Parameter, setting: Any
) -> Any:
    """A setting of the file as text for its option; resolves paths against the file's folder.

    Raises `UsageError` for a value that the option rejects.
    """
    takes_many = option.nargs != 1 or bool(getattr(option, "multiple", False))
    values = setting if isinstance(setting, list) else [setting]
    if isinstance(setting, list) and not takes_many:
        raise UsageError(f"{path}: {option.name} must be one value, not a list")
    if not all(isinstance(value, str | int | float) for value in values):
        raise UsageError(f"{path}: {option.name} holds a value that is neither text nor a number")
    folder = path.parent if option.type is PATH_TYPE else None
    texts = [str(folder / str(value)) if folder else str(value) for value in values]
    try:
        option.type_cast_value(ctx, texts if takes_many else texts[0])
    except click.BadParameter as error:
        raise UsageError(f"{path}: {option.name}: {error.message.rstrip('.')}") from None
    return texts if takes_many else texts[0]


CONFIG_OPTION: Final = click.option(
    "--config", type=PATH_TYPE, is_eager=True, expose_value=False, callback=_load_config,
    envvar="LLM_PROXY_CONFIG", show_envvar=True,
    help="A settings file.  [default: the nearest llm-proxy.toml or pyproject.toml]",
)  # fmt: skip
