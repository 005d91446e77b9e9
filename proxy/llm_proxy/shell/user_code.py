"""Imports the user's own Python objects, which options name as `MODULE:NAME`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from llm_proxy.errors import UsageError


def import_object(option: str, object_path: str, example: str) -> Any:
    """Import `module:name`; modules in the working folder are found too.

    `option` is the name of the option, and `example` a correct value of it.  Raises `UsageError`
    if there is no such object, and if the module raises an exception or exits.
    """
    label = f"{option} {object_path}"
    module, _, name = object_path.partition(":")
    if not module or not name:
        raise UsageError(f"{label}: expected MODULE:NAME, such as {example}")
    working_folder = str(Path.cwd())
    if working_folder not in sys.path:
        sys.path.insert(0, working_folder)
    try:
        imported = import_module(module)
    except ModuleNotFoundError as error:
        raise UsageError(f"{label}: no such module: {error.name}") from None
    except (Exception, SystemExit) as error:
        reason = str(error) or type(error).__name__
        raise UsageError(f"{label}: cannot import {module}: {reason}") from error
    if not hasattr(imported, name):
        raise UsageError(f"{label}: module {module} has no {name}")
    return getattr(imported, name)
