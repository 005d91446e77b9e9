"""Writes command output to a new file or to stdout."""

from __future__ import annotations

from pathlib import Path

from llm_proxy.cli.output.printing import write_bytes_safely
from llm_proxy.errors import UsageError


def write_new(data: bytes, output: Path | None, label: str) -> None:
    """Write to a new file, or to stdout; `what` names the data in messages.

    Raises `UsageError` for a file that is there, or cannot be written.
    """
    if output is None or output == Path("-"):
        write_bytes_safely(data, label)
        return
    try:
        with output.open("xb") as file:
            file.write(data)
    except FileExistsError:
        raise UsageError(f"{output} is there already: name another file") from None
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}") from None
