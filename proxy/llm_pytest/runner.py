"""Runs one test: from its definition to the verdict, with the evidence.

Source: owner's document 003, "Architecture Overview" and "Update the Runner".
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from llm_proxy.display import escape_block, path_as_unicode_text
from llm_pytest.definitions import resolve
from llm_pytest.errors import ProviderFailed, UnreadableVerdict
from llm_pytest.evidence import ToolCallRecord
from llm_pytest.models import RunUsage, TestSpec, Verdict
from llm_pytest.plugins import project_root
from llm_pytest.prompt import render_prompt
from llm_pytest.providers import DEFAULT_PROVIDER, get_provider
from llm_pytest.providers.base import ProviderContext
from llm_pytest.secrets import Secrets, secret_names
from llm_pytest.toolset import ToolSet, make_toolset
from llm_pytest.verdicts import checked_verdict


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a test runs.  What is empty comes from the definition."""

    provider: str = ""
    model: str = ""
    timeout: float | None = None
    """Seconds."""
    allowed_hosts: Sequence[str] = ()
    """Hosts that the tools may reach besides those of the definition."""
    is_verbose: bool = False
    is_replay: bool = False
    """Whether the responses of the model come from recordings."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    show: Callable[[str], None] = lambda line: click.echo(escape_block(line), err=True)
    """Shows one line of what happens, in verbose mode."""


@dataclass(frozen=True, slots=True)
class TestRun:
    """What a run of a test resulted in."""

    __test__ = False

    spec: TestSpec
    """The definition with the values of its variables."""
    provider: str
    model: str
    """Empty if the provider chose it itself."""
    prompt: str
    outcome: Verdict | ProviderFailed
    """The verdict; or why there is none, which is no fault of the tested program."""
    is_replay: bool
    """Whether the responses of the model came from recordings."""
    has_verdict: bool
    """Whether the model itself has returned a verdict."""
    calls: tuple[ToolCallRecord, ...] = ()
    usage: RunUsage = field(default_factory=RunUsage)
    duration_s: float = 0.0


def run_llm_test(
    spec: TestSpec,
    yaml_path: Path,
    timeout: float | None = None,
    verbose: bool = False,  # the owner's document gives the signature
    provider: str = DEFAULT_PROVIDER,
) -> Verdict:
    """Run a test via an LLM provider, and return its verdict.

    `timeout` is in seconds; without one, that of the definition counts.  A provider that the
    definition names takes precedence.  With `verbose`, what happens is printed to stderr.

    Raises `ValueError` for an unknown provider, `ProviderFailed`, `PluginFailed`, and
    `DefinitionError` for a variable without a value.
    """
    options = RunOptions(provider=spec.provider or provider, timeout=timeout, is_verbose=verbose)
    run = run_test(spec, yaml_path, options)
    if isinstance(run.outcome, ProviderFailed):
        raise run.outcome
    return run.outcome


def run_test(spec: TestSpec, yaml_path: Path, options: RunOptions) -> TestRun:
    """Run a test, and return what it resulted in.  Raises as `run_llm_test` does."""
    spec = resolve(spec, options.environ, path_as_unicode_text(yaml_path))
    name = options.provider or spec.provider or DEFAULT_PROVIDER
    root = project_root(yaml_path)
    allowed_hosts = (*spec.allowed_hosts, *options.allowed_hosts)
    names = secret_names(spec)
    toolset = make_toolset(root, allowed_hosts, secrets=Secrets(names, options.environ))
    prompt = render_prompt(spec, yaml_path.read_text(encoding="utf-8"))
    context = ProviderContext(
        prompt=prompt,
        toolset=toolset,
        project_root=root,
        environ=options.environ,
        model=options.model or spec.model,
        allowed_hosts=allowed_hosts,
        secret_names=names,
        is_replay=options.is_replay,
        show=options.show,
    )
    llm = get_provider(name, context)
    timeout = spec.timeout if options.timeout is None else options.timeout
    outcome: Verdict | ProviderFailed
    has_verdict = False
    begin = time.monotonic()
    try:
        tools = toolset.definitions()
        verdict = _run_to_end(llm.execute_test(spec, tools, timeout, options.is_verbose))
        outcome = checked_verdict(verdict, toolset.calls, spec)
        has_verdict = True
    except UnreadableVerdict as error:
        outcome = Verdict("UNCLEAR", str(error))
    except TimeoutError:
        outcome = Verdict("FAIL", _timeout_reason(timeout, toolset))
    except ProviderFailed as error:
        outcome = error
    return TestRun(
        spec=spec,
        provider=name,
        model=llm.model,
        prompt=prompt,
        outcome=outcome,
        is_replay=options.is_replay,
        has_verdict=has_verdict,
        calls=tuple(toolset.calls),
        usage=llm.usage,
        duration_s=time.monotonic() - begin,
    )


def _run_to_end(test: Coroutine[Any, Any, Verdict]) -> Verdict:
    """Run a test.  SIGTERM and SIGHUP end the whole run as Ctrl-C does, so that all clean up."""
    ended_by: list[signal.Signals] = []

    async def run() -> Verdict:
        task = asyncio.ensure_future(test)

        def end(number: signal.Signals) -> None:
            ended_by.append(number)
            task.cancel()

        loop = asyncio.get_running_loop()
        for number in handlers:
            with suppress(RuntimeError, ValueError):  # this is not the main thread
                loop.add_signal_handler(number, end, number)
        return await task

    # `nohup` ignores SIGHUP; a project may have handlers of its own.
    handlers = {
        number: handler
        for number in (signal.SIGTERM, signal.SIGHUP)
        if (handler := signal.getsignal(number)) is not signal.SIG_IGN
    }
    try:
        return asyncio.run(run())
    finally:
        with suppress(ValueError):  # this is not the main thread
            for number, handler in handlers.items():
                signal.signal(number, handler)
        if ended_by:
            raise KeyboardInterrupt


def _timeout_reason(timeout: float, toolset: ToolSet) -> str:
    reason = f"no verdict within {timeout:g} s"
    if toolset.running:
        return f"{reason}; {toolset.running} blocks, and does not end"
    if not toolset.calls:
        return f"{reason}; no tool was called"
    last = toolset.calls[-1]
    step = f" in step {last.step}" if last.step else ""
    return f"{reason}; the last call was {last.tool}{step}"
