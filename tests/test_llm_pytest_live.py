"""A test that a real model runs is recorded and replayed, whatever verdict the model reaches."""

from __future__ import annotations

from pathlib import Path

import pytest

from live_model import CHAT_TEMPLATE, running_model
from llm_project import LLMProject, shop_project

LIMITS = ("-c", "16384", "--jinja", "--chat-template-file", str(CHAT_TEMPLATE))


@pytest.mark.live
@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_a_run_of_a_real_model_is_replayed_with_the_same_verdict(tmp_path: Path) -> None:
    project = shop_project(tmp_path / "shop")
    definition = project.folder / "tests" / "llm" / "stock.yaml"
    definition.write_text(definition.read_text().replace("timeout: 60", "timeout: 300"))
    arguments = ("--llm-provider=openai", "--llm-model=live", "tests/llm/stock.yaml")

    with running_model(tmp_path / "server.log", *LIMITS) as url:
        recorded = project.run(
            "--llm-proxy=record", *arguments,
            variables={"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "none"}, timeout_s=400,
        )  # fmt: skip
    replayed = LLMProject(project.folder).run("--llm-proxy=replay", *arguments)

    assert recorded.verdicts
    assert replayed.verdicts == recorded.verdicts
    assert "missed 0" in replayed.output
