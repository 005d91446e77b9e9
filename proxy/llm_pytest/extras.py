"""The optional dependencies of `llm_pytest`: one clear error if they are not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llm_proxy.errors import UsageError


@contextmanager
def needs_extra() -> Iterator[None]:
    """For imports of the extra `llm-tests`.  Raises `UsageError` if a module is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(
            f"LLM tests require {error.name}; run pip install 'llm-proxy-replay[llm-tests]'"
        ) from None
