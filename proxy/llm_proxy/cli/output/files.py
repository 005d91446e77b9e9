"""Writes command output to a new file or to stdout."""

from __future__ import annotations

from pathlib import Path

from llm_proxy.cli.output.printing import write_terminal_safe_bytes
from llm_proxy.errors import UsageError


def write_new_file_or_stdout(data: bytes, output: Path | None, label: str) -> None:
    """Write to a new file, or to stdout for None and `-`; `label` names the data in errors.

    Raises `UsageError` for a file that exists or cannot be written.
    """
    if output is None or output == Path("-"):
        write_terminal_safe_bytes(data, label)
        return
    try:
        with output.open("xb") as file:
            file.write(data)
    except FileExistsError:
        raise UsageError(f"{output} is there already: name another file") from None
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}") from None
