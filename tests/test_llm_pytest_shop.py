"""The tests of a shop are recorded once, and replayed: the shop is really tested each time."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from llm_project import DEFECTS, VERDICTS, LLMProject, scripted_model, shop_project

API_PROVIDERS: Final = (
    "openai", "openai-responses", "anthropic", "gemini", "ollama", "bedrock",
)  # fmt: skip
QUICK_TIMEOUT: Final = "timeout: 0.3"


def quick(project: LLMProject) -> LLMProject:
    """The project with a shorter time limit for the test that exceeds it."""
    file = project.folder / "tests" / "llm" / "timeout.yaml"
    file.write_text(file.read_text().replace("timeout: 10", QUICK_TIMEOUT))
    return project


def recorded_shop(folder: Path, provider: str) -> LLMProject:
    """The shop's project with recordings of all its tests."""
    project = quick(shop_project(folder))
    with scripted_model() as variables:
        run = project.run(
            "--llm-proxy=record", f"--llm-provider={provider}", "--llm-model=test-model",
            "tests/llm", variables=variables,
        )  # fmt: skip
    assert run.verdicts == VERDICTS, run.output
    return project


@pytest.mark.shows("003-01", "003-03", "003-04", "003-15", "003-16", "003-20", "003-21", "003-29")
@pytest.mark.parametrize("provider", API_PROVIDERS)
def test_the_tests_of_a_shop_have_the_same_verdicts_in_replay(
    tmp_path: Path, provider: str
) -> None:
    recorded = recorded_shop(tmp_path / "recorded", provider)
    elsewhere = recorded.copy(tmp_path / "elsewhere")
    log = tmp_path / "requests.log"

    run = elsewhere.run(
        "--llm-proxy=replay", f"--llm-provider={provider}", "--llm-model=test-model", "tests/llm",
        variables={"SHOP_LOG": str(log)},
    )  # fmt: skip

    assert run.verdicts == VERDICTS, run.output
    requests = log.read_text().splitlines()
    assert requests.count("POST /carts") == 3
    assert sum(request.startswith("DELETE /carts/") for request in requests) == 2
    assert "1 assertion failed" in run.report("wrong_total")
    assert "Coffee is out of stock." in run.report("cleanup")
    assert "no verdict within 0.3 s" in run.report("timeout")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> LLMProject:
    """The shop's project with recordings of OpenAI's dialect."""
    return recorded_shop(tmp_path_factory.mktemp("shop") / "shop", "openai")


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_replay_is_red_if_the_shop_is_broken(shop: LLMProject, defect: str) -> None:
    run = shop.run(
        "--llm-proxy=replay", "--llm-provider=openai", "--llm-model=test-model",
        "tests/llm/checkout.yaml", variables={"SHOP_DEFECT": defect},
    )  # fmt: skip

    assert run.verdicts == {"checkout": "ERROR"}, run.output
    report = run.report("checkout")
    assert DEFECTS[defect] in report
