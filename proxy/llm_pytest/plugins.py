"""Finds the plugins of a project: `tests/llm/plugins/*.py`.

Source: owner's document 003, "Tool Discovery".
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

from llm_chat.errors import error_text
from llm_pytest.errors import PluginFailed
from llm_pytest.plugin_base import LLMPlugin

DEFINITIONS_FOLDER: Final = Path("tests") / "llm"
PLUGINS_FOLDER: Final = DEFINITIONS_FOLDER / "plugins"


def project_root(yaml_path: Path) -> Path:
    """The folder of the project: the one with `tests/llm` around the definition, else its own."""
    folder = yaml_path.resolve().parent
    for parent in (folder, *folder.parents):
        if parent.parts[-2:] == DEFINITIONS_FOLDER.parts:
            return parent.parent.parent
    return folder


def load_plugins(project_root: Path) -> list[LLMPlugin]:
    """One new instance of every plugin of the project, in the order of the files.

    A file whose name begins with `_` is skipped, and so is one without a plugin.  Modules of the
    project's root can be imported.  Raises `PluginFailed`.
    """
    root = str(project_root)
    if root not in sys.path:
        sys.path.append(root)  # behind libraries of the same name
    plugins: list[LLMPlugin] = []
    for file in sorted((project_root / PLUGINS_FOLDER).glob("*.py")):
        if not file.name.startswith("_"):
            plugins += _plugins_of(file)
    return plugins


def _plugins_of(file: Path) -> Iterator[LLMPlugin]:
    try:
        for plugin_class in _plugin_classes(_load_module(file)):
            plugin = plugin_class()
            if not plugin.name:
                plugin.name = file.stem  # type: ignore[misc] # the instance has a name of its own
            yield plugin
    except (Exception, SystemExit) as error:  # of the project's own code
        reason = f"{type(error).__name__}: {error_text(error)}"
        raise PluginFailed(f"{file}: cannot load the plugin: {reason}") from error


def _load_module(file: Path) -> ModuleType:
    """The module of a file, loaded once."""
    name = f"llm_pytest_plugins.{file.stem}"
    loaded = sys.modules.get(name)
    if loaded is not None and loaded.__file__ == str(file):
        return loaded
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None  # noqa: S101 # a file with the suffix .py has a loader
    assert spec.loader is not None  # noqa: S101 # as above
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _plugin_classes(module: ModuleType) -> Iterator[type[LLMPlugin]]:
    """The plugins that a module defines itself, in their order."""
    for value in list(vars(module).values()):  # plugins may set globals when they are made
        is_own_class = inspect.isclass(value) and value.__module__ == module.__name__
        if is_own_class and issubclass(value, LLMPlugin):
            yield value
