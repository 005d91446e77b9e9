"""The agent with each of its providers."""

from __future__ import annotations

import re

import pytest

from assistant.agent import Agent
from assistant.providers import PROVIDERS
from assistant.tools import WEATHER
from llm_proxy import ProxySession

QUESTION = "What is the weather in Lisbon?"


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_agent_answers_with_the_result_of_a_tool(provider: str) -> None:
    agent = Agent(provider)

    answer = agent.ask(QUESTION)

    question, call, result, reply = agent.messages
    assert question.text == QUESTION
    assert [each.name for each in call.tool_calls] == ["get_weather"]
    assert result.text in WEATHER.values()
    assert answer == reply.text != ""


def test_the_model_receives_the_result_of_the_tool(provider: str, llm_proxy: ProxySession) -> None:
    agent = Agent(provider)
    agent.ask(QUESTION)

    llm_proxy.assert_called_with(
        provider=provider,
        user=QUESTION,
        tools=["get_weather", "calculate"],
        tool_results=[agent.messages[2].text],
        status=200,
        text=agent.messages[-1].text,
    )


def test_the_answer_arrives_in_pieces(provider: str) -> None:
    agent = Agent(provider)

    pieces = list(agent.stream(QUESTION))

    assert len(pieces) > 1
    assert "".join(pieces) == agent.messages[-1].text


class TestConversation:
    @pytest.fixture
    def agent(self) -> Agent:
        agent = Agent()
        agent.ask(QUESTION)
        return agent

    def test_the_model_calls_a_tool_then_answers(
        self, agent: Agent, llm_proxy: ProxySession
    ) -> None:
        call_turn, answer_turn = llm_proxy.turns

        assert call_turn.finish == "tool_calls"
        assert answer_turn.text == agent.messages[-1].text

    def test_a_second_question_follows_the_first(
        self, agent: Agent, llm_proxy: ProxySession
    ) -> None:
        agent.ask("And in Oslo?")

        call = llm_proxy.assert_called_with(user="And in Oslo?", system=re.compile("assistant"))
        assert call.conversation is not None
        assert call.conversation.first_user_text == QUESTION
