"""What the agent does when a request fails, or when the model does something strange."""

from __future__ import annotations

import pytest

from assistant.agent import APOLOGY, Agent, TooManyTurns
from assistant.messages import ModelError
from llm_proxy import ProxySession

QUESTION = "What is the weather in Oslo?"


@pytest.mark.llm_proxy(faults="rate-limit,first=1,retry-after=10ms")
def test_the_agent_waits_after_a_rate_limit(llm_proxy: ProxySession) -> None:
    assert Agent().ask(QUESTION)

    assert [call.status for call in llm_proxy.calls] == [429, 200, 200]
    assert [fault.fault for fault in llm_proxy.faults] == ["rate-limit"]


@pytest.mark.llm_proxy(faults="reset,after=3")
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_an_incomplete_answer_is_an_error(provider: str) -> None:
    agent = Agent(provider)

    with pytest.raises(ModelError):
        agent.ask(QUESTION)

    assert [message.role for message in agent.messages] == ["user"]


@pytest.mark.llm_proxy(faults="status,code=400")
def test_the_agent_apologises_after_an_error() -> None:
    assert Agent().ask_politely(QUESTION) == APOLOGY


@pytest.mark.llm_proxy(mode="replay")
@pytest.mark.xfail(raises=pytest.fail.Exception, strict=True, reason="was never recorded")
def test_an_apology_hides_no_missing_recording() -> None:
    assert Agent().ask_politely("Is this question recorded?") == APOLOGY


@pytest.mark.llm_proxy(scenario="endless-calls")
def test_the_agent_stops_a_model_that_only_calls_tools(llm_proxy: ProxySession) -> None:
    with pytest.raises(TooManyTurns):
        Agent(max_turns=3).ask(QUESTION)

    assert len(llm_proxy.turns) == 3


@pytest.mark.llm_proxy(scenario="wrong-calls")
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_the_model_learns_why_a_tool_has_no_result(provider: str, llm_proxy: ProxySession) -> None:
    assert Agent(provider).ask("What is 1 / 0?") == "I cannot divide by zero."

    llm_proxy.assert_called_with(
        tool_results=[
            "error: ZeroDivisionError: division by zero",
            "error: no tool named search_web",
        ]
    )
