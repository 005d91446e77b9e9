"""The tests of a sample application, `sample_agent`, are replayed, and recorded from a real model.

They are run as a user runs them: in their own pytest, in a copy of the application.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from live_model import CHAT_TEMPLATE, running_model
from plugin_project import PluginProject, PytestRun

APP: Final = Path(__file__).with_name("sample_agent")
PLUGINS: Final = ("pytest_asyncio.plugin",)
"""The plugins of pytest that the tests of the application need."""
RECORDING_TIMEOUT_S: Final = 500.0
"""A model without a graphics card needs about a minute."""


def copied_project(folder: Path) -> PluginProject:
    """A copy of the application with its tests and cassettes."""
    shutil.copytree(APP, folder / "app", ignore=shutil.ignore_patterns("__pycache__"))
    return PluginProject(folder / "app")


def assert_success(run: PytestRun, counts: str) -> None:
    """Assert that all tests have succeeded, and that the summary has these counts."""
    assert run.exit_code == 0, run.output
    assert set(run.outcomes.values()) == {"PASSED", "XFAIL"}
    # The missing recording is the one that a test expects.
    assert run.summary == f"llm-proxy: {counts}, missed 1, 0 cassettes unused"


def test_the_tests_of_the_sample_agent_replay_without_a_key(tmp_path: Path) -> None:
    project = copied_project(tmp_path)
    count = len(project.cassettes())

    replay = project.run(plugins=PLUGINS)

    assert_success(replay, f"played {count} from {count} cassettes, simulated 7, recorded 0")


@pytest.mark.live
@pytest.mark.timeout(2 * RECORDING_TIMEOUT_S)
def test_the_tests_of_the_sample_agent_are_recorded_with_one_option(tmp_path: Path) -> None:
    project = copied_project(tmp_path)
    shutil.rmtree(project.folder / "cassettes")
    options = ("-c", "2048", "--temp", "0", "--jinja", "--chat-template-file", str(CHAT_TEMPLATE))

    with running_model(tmp_path / "log", *options) as url:
        variables = {
            "OPENAI_BASE_URL": f"{url}/v1",
            "ANTHROPIC_BASE_URL": url,
            "MISTRAL_BASE_URL": f"{url}/v1",
        }
        recording = project.run(
            "--llm-proxy=record",
            plugins=PLUGINS,
            variables=variables,
            timeout_s=RECORDING_TIMEOUT_S,
        )
    count = len(project.cassettes())
    replay = project.run(plugins=PLUGINS)

    assert_success(recording, f"played 0 from 0 cassettes, simulated 7, recorded {count}")
    assert_success(replay, f"played {count} from {count} cassettes, simulated 7, recorded 0")
