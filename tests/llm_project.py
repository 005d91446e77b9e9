"""Projects with tests that a model runs, and a scripted model that runs them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sample_model
from llm_proxy import LLMProxy
from llm_proxy.providers import API_KEY_VARIABLES
from plugin_project import NO_VARIABLES, PluginProject, PytestRun

Respond = Callable[[Any], Any]
"""Returns the response to a request: a text, or tool calls."""
SHOP: Final = Path(__file__).parent / "sample_shop"
NAMES: Final = {
    "checkout": "two teas cost 9.00",
    "wrong_total": "two teas cost 10.00",
    "stock": "tea is in stock",
    "cleanup": "coffee is in stock",
    "timeout": "a report is created",
}
"""The names of the shop's tests by file."""
VERDICTS: Final = {
    "checkout": "PASS",
    "wrong_total": "FAIL",
    "stock": "PASS",
    "cleanup": "FAIL",
    "timeout": "FAIL",
}
_CHANGED: Final = "has changed since the recording\n "
DEFECTS: Final = {
    "error": f"setup: the result of http_post {_CHANGED} $.status: recorded 201, now 500\n",
    "value": f"setup: the result of http_post {_CHANGED} $.json.total: recorded 0, now 1\n",
    "field": f"setup: the result of http_post {_CHANGED} $.json.total: recorded 0, now no value\n",
    "slow": (
        f'step 1 "Add two teas": the result of assert_response_time {_CHANGED} $.passed: recorded '
        "true, now false\n"
    ),
    "down": (
        f"setup: the result of http_post {_CHANGED} $.error: recorded no value, now "
        '"connection refused by 127.0.0.1:'
    ),
}
"""What the report of the test `checkout` says in a replay, by the defect of the shop."""
_VERDICT_LINE: Final = re.compile(r"^(PASS|FAIL|UNCLEAR|ERROR) +\S*/(\w+)\.yaml::", re.MULTILINE)
_TIME: Final = re.compile(r", ([0-9.]+) s$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LLMTestRun:
    """A run of a project's tests that has ended."""

    pytest_run: PytestRun

    @property
    def output(self) -> str:
        """What pytest printed."""
        return self.pytest_run.output

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of each test by the name of its file."""
        return {file: verdict for verdict, file in _VERDICT_LINE.findall(self.output)}

    def report(self, file: str) -> str:
        """What pytest prints of a failed test, by the name of its file."""
        heading = rf"^_+ {re.escape(NAMES.get(file, file))} _+\n(.*?)(?=^(?:_+ .* _+|=+ .* =+)$)"
        found = re.search(heading, self.output, re.MULTILINE | re.DOTALL)
        assert found is not None, self.output
        return found[1]


@dataclass(frozen=True, slots=True)
class LLMProject:
    """A folder with test definitions in `tests/llm`."""

    folder: Path

    def run(
        self, *arguments: str, variables: Mapping[str, str] = NO_VARIABLES, timeout_s: float = 110
    ) -> LLMTestRun:
        """Run `pytest --llm` in the folder."""
        return self.run_without_llm("--llm", *arguments, variables=variables, timeout_s=timeout_s)

    def run_without_llm(
        self, *arguments: str, variables: Mapping[str, str] = NO_VARIABLES, timeout_s: float = 110
    ) -> LLMTestRun:
        """Run `pytest` in the folder."""
        plugins = ["llm_pytest.pytest_plugin"]
        plugins += ["pytest_timeout"] * any(each.startswith("--timeout") for each in arguments)
        project = PluginProject(self.folder)
        return LLMTestRun(
            project.run(*arguments, plugins=plugins, variables=variables, timeout_s=timeout_s)
        )

    def copy(self, folder: Path) -> LLMProject:
        """The project in another folder, with its recordings."""
        shutil.copytree(self.folder, folder)
        return LLMProject(folder)


def shop_project(folder: Path) -> LLMProject:
    """A copy of the shop's project."""
    shutil.copytree(SHOP, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return LLMProject(folder)


@contextmanager
def scripted_model(respond: Respond = sample_model.respond) -> Iterator[dict[str, str]]:
    """A simulated provider that plays the model; the variables with which a project uses it."""
    with LLMProxy(
        "simulate", respond=respond, pace="instant", in_process=True, patch_environment=False
    ) as proxy:
        keys = dict.fromkeys(API_KEY_VARIABLES, "sk-of-the-author")
        yield {**keys, "LLM_PROXY_UPSTREAM": f"default={proxy.url}"}
