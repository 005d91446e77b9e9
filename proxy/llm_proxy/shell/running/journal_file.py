"""Writes the journal file of a run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from llm_proxy.errors import LlmProxyError, UsageError


def check_writable(path: Path) -> None:
    """Raise `UsageError` if the file could not be written; creates nothing."""
    folder = _resolve_link(path).parent
    if path.is_dir():
        raise UsageError(f"--journal {path} is a folder: name a file in it")
    if path.exists() and not path.is_file():
        raise UsageError(f"--journal {path} is a device or the like: name a plain file")
    if not folder.is_dir():
        raise UsageError(f"--journal {path}: there is no folder {folder}; make it, or name another")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            f"--journal {path} cannot be written: you may not write to {folder}; give a folder "
            "where you may"
        )


def write_journal(path: Path, document: Mapping[str, Any]) -> None:
    """Write a journal document atomically.  Raises `LlmProxyError` if that fails."""
    target = _resolve_link(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        temporary.write_bytes(orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE))
        temporary.replace(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise LlmProxyError(f"--journal {path} cannot be written: {error.strerror}") from None


def _resolve_link(path: Path) -> Path:
    """The target of a symbolic link, so that replacing it keeps the link."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path.absolute()
