"""Test definitions as pytest items: collected from `tests/llm`, run, reported and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from llm_proxy import pytest_plugin as proxy_plugin
from llm_proxy.display import count_with_noun, escape_block
from llm_proxy.errors import LlmProxyError
from llm_proxy.matching.presets import TEST_PRESET
from llm_proxy.pytest_sessions import KEEPS_RECORDINGS, SESSION_RULES
from llm_pytest.definitions import (
    DEFINITION_SUFFIXES,
    DefinitionError,
    is_definition,
    load_definition,
)
from llm_pytest.miss_explanations import explain_misses
from llm_pytest.models import TestSpec, Verdict
from llm_pytest.plugins import DEFINITIONS_FOLDER
from llm_pytest.prices import parse_prices
from llm_pytest.providers import DEFAULT_PROVIDER
from llm_pytest.report import report_lines, usage_text
from llm_pytest.runner import RunOptions, TestRun, run_test

_VERDICT: Final = "llm_verdict"
_USAGE: Final = "llm_usage"
"""Names of properties, in reports of tests and in JUnit files."""


class LLMTestFailed(Exception):
    """A test whose verdict is not PASS; the message is the report."""


class LLMTests:
    """The hooks of a pytest process with `--llm`."""

    def __init__(self, config: pytest.Config) -> None:
        """Raises `pytest.UsageError` for options that contradict each other."""
        self.repeat: int = config.option.llm_repeat
        self.mode = proxy_plugin.run_mode(config)
        try:
            self.prices = parse_prices(config.getini("llm_prices"))
        except ValueError as error:
            raise pytest.UsageError(str(error)) from None
        self._config = config
        if self.repeat < 1:
            raise pytest.UsageError(f"--llm-repeat: expected at least 1, got {self.repeat}")
        if self.repeat > 1 and self.mode not in {"", "off"}:
            raise pytest.UsageError(
                f"--llm-repeat runs tests live, and the mode of llm-proxy is {self.mode}: "
                "add --llm-proxy=off"
            )

    def pytest_collect_file(
        self, file_path: Path, parent: pytest.Collector
    ) -> DefinitionFile | None:
        """Collect a definition in a folder `tests/llm`, and a file that is an argument itself."""
        if parent.session.isinitpath(file_path):
            is_test = file_path.suffix.lower() in (*DEFINITION_SUFFIXES, ".json")
        else:
            is_test = any(
                is_definition(file_path.relative_to(folder))
                for folder in file_path.parents
                if folder.parts[-2:] == DEFINITIONS_FOLDER.parts
            )
        if not is_test:
            return None
        file: DefinitionFile = DefinitionFile.from_parent(parent, path=file_path)
        file.tests = self
        return file

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what each test has used; with `--llm-repeat`, how often each verdict came."""
        used: list[tuple[str, str, str]] = []
        for reports in terminalreporter.stats.values():
            for report in reports:
                if isinstance(report, pytest.TestReport) and report.when == "call":
                    properties = dict(report.user_properties)
                    if _VERDICT in properties:
                        verdict, usage = str(properties[_VERDICT]), str(properties[_USAGE])
                        used.append((report.nodeid, verdict, usage))
        if not used:
            return
        terminalreporter.section("tests run by a model")
        for node_id, verdict, usage in used:
            terminalreporter.write_line(f"{verdict:7}  {node_id}: {usage}")
        if self.repeat > 1:
            for line in _verdict_counts((node_id, verdict) for node_id, verdict, _ in used):
                terminalreporter.write_line(line)

    def run_options(self, spec: TestSpec) -> RunOptions:
        """How a test runs: options first, then its definition, then the ini file."""
        config = self._config
        return RunOptions(
            provider=config.option.llm_provider
            or spec.provider
            or config.getini("llm_provider")
            or DEFAULT_PROVIDER,
            model=config.option.llm_model or spec.model or config.getini("llm_model"),
            allowed_hosts=config.getini("llm_allowed_hosts"),
            is_verbose=config.option.verbose > 0,
            is_replay=self.mode == "replay",
            show=_terminal_writer(config),
        )


class DefinitionFile(pytest.Module):
    """A file with one test definition: a module for fixtures that have the scope of one."""

    obj = None
    tests: LLMTests

    def collect(self) -> Iterator[LLMTest]:
        """One item, or as many as `--llm-repeat` wants."""
        spec = load_definition(self.path)
        count = self.tests.repeat
        for number in range(1, count + 1):
            name = spec.name if count == 1 else f"{spec.name}[{number}]"
            yield LLMTest.from_definition(self, name, spec)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The mistakes of a definition, without a traceback."""
        if isinstance(excinfo.value, DefinitionError):
            return str(excinfo.value)
        return super().repr_failure(excinfo)


class LLMTest(pytest.Function):
    """One run of a test definition.  It has the autouse fixtures of its conftest files."""

    spec: TestSpec
    tests: LLMTests

    @classmethod
    def from_definition(cls, file: DefinitionFile, name: str, spec: TestSpec) -> LLMTest:
        """The item of a definition, with its tags as markers."""
        item: LLMTest = cls.from_parent(file, name=name, callobj=_run_nothing)
        item.spec, item.tests = spec, file.tests
        item.add_marker("llm")
        for tag in spec.tags:
            item.config.addinivalue_line("markers", f"{tag}: a tag of a test definition")
            item.add_marker(tag)
        item.stash[SESSION_RULES] = (TEST_PRESET,)
        return item

    def runtest(self) -> None:
        """Run the test.  Raises `LLMTestFailed` for every verdict but PASS."""
        run = run_test(self.spec, self.path, self.tests.run_options(self.spec))
        name = run.outcome.verdict if isinstance(run.outcome, Verdict) else "ERROR"
        usage = self.tests.prices.with_cost(run.usage, run.model)
        self.user_properties.append((_VERDICT, name))
        self.user_properties.append((_USAGE, usage_text(run, usage)))
        # A test that has come to a verdict is recorded, whatever the verdict is.
        self.stash[KEEPS_RECORDINGS] = run.has_verdict
        if name != "PASS":
            raise LLMTestFailed("\n".join(report_lines(run, self._explanations(run))))

    def _explanations(self, run: TestRun) -> list[str]:
        session = proxy_plugin.running_session(self.config)
        return [] if session is None else explain_misses(session, run, self.config.rootpath)

    def repr_failure(  # type: ignore[override] # as `pytest.Function` has it
        self, excinfo: pytest.ExceptionInfo[BaseException]
    ) -> Any:
        """The report of a test without a traceback of ours."""
        if isinstance(excinfo.value, LLMTestFailed | LlmProxyError):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def reportinfo(self) -> tuple[Path, int, str]:
        """The file, its first line, and the name of the test."""
        return self.path, 0, self.name


def _run_nothing() -> None:
    """The function of an item, which `LLMTest.runtest` replaces."""


def _terminal_writer(config: pytest.Config) -> Callable[[str], None]:
    """Writes lines to the terminal while pytest captures the output of tests."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    capture = config.pluginmanager.getplugin("capturemanager")

    def show(line: str) -> None:
        if reporter is not None and capture is not None:
            with capture.global_and_fixture_disabled():
                reporter.ensure_newline()
                reporter.write_line(escape_block(line))

    return show


def _verdict_counts(verdicts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """By test: how often each verdict came."""
    counts: dict[str, Counter[str]] = {}
    for node_id, verdict in verdicts:
        counts.setdefault(node_id.rpartition("[")[0], Counter())[verdict] += 1
    for test, count in counts.items():
        shown = ", ".join(f"{number} {verdict}" for verdict, number in count.most_common())
        flaky = " (flaky)" if len(count) > 1 else ""
        yield f"{test}: {count_with_noun(count.total(), 'run')}: {shown}{flaky}"
