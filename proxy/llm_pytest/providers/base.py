"""What a provider is: it lets a model carry out one test, and returns the verdict.

Source: owner's document 003, "Define a Provider Interface".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from llm_proxy.turns import Json
from llm_pytest.models import RunUsage, TestSpec, Verdict
from llm_pytest.toolset import ToolSet


@dataclass(frozen=True, slots=True)
class ProviderContext:
    """What a provider needs besides the test definition."""

    prompt: str
    """The rendered prompt."""
    toolset: ToolSet
    project_root: Path
    environ: Mapping[str, str]
    """The environment of the run, with the base URLs of the proxy if there is one."""
    model: str = ""
    """Empty for the default of the provider."""
    allowed_hosts: Sequence[str] = ()
    """Hosts that the tools may reach besides this machine, for tools in another process."""
    secret_names: Sequence[str] = ()
    """Environment variables whose values tools insert, for tools in another process."""
    is_replay: bool = False
    """Whether the responses come from recordings: then nothing of the user's account is used."""
    show: Callable[[str], None] = print
    """Shows one line, in verbose mode."""


class LLMProvider(ABC):
    """Lets a model carry out tests."""

    name: ClassVar[str]
    default_model: ClassVar[str] = ""
    """Empty if the provider chooses one itself, or has none."""

    def __init__(self, context: ProviderContext) -> None:
        self._context = context
        self.usage = RunUsage()
        """What the test has used so far."""

    @property
    def model(self) -> str:
        """The model that runs the test; empty if it is not known."""
        return self._context.model or self.default_model

    @abstractmethod
    async def execute_test(
        self,
        spec: TestSpec,
        tools: Sequence[Mapping[str, Any]],
        timeout: float,  # noqa: ASYNC109 # the owner's document gives the signature
        verbose: bool = False,  # as above
    ) -> Verdict:
        """Carry out a test.

        `tools` are MCP tools (`name`, `description`, `inputSchema`), `timeout` is in seconds.
        Raises `TimeoutError` at the end of it, `UnreadableVerdict`, and `ProviderFailed`.
        """

    @abstractmethod
    async def call_tool(self, name: str, arguments: dict[str, Json]) -> Json:
        """Call a tool; returns its result, which is `{"error": message}` if it failed."""
