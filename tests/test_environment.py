"""What a child finds in its environment, and what is learned from the operator's."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from llm_proxy.shell.running.environment import (
    ADOPTED,
    BASE_URLS,
    adopted_upstreams,
    child_environment,
    exports,
)

URL = "http://127.0.0.1:4777"


def test_every_variable_that_is_adopted_is_also_set() -> None:
    assert set(ADOPTED) <= set(BASE_URLS)


@pytest.mark.parametrize(
    ("environ", "adopted"),
    [
        ({}, {}),
        ({"OPENAI_BASE_URL": "https://gateway.example/v1"}, {"openai": "https://gateway.example/v1"}),
        ({"OPENAI_BASE_URL": "not a URL"}, {}),
        ({"OPENAI_BASE_URL": ""}, {}),
        ({"OLLAMA_HOST": "http://box:11434"}, {"ollama": "http://box:11434"}),
        ({"OLLAMA_HOST": "box:8080"}, {"ollama": "http://box:8080"}),
        ({"OLLAMA_HOST": "box"}, {"ollama": "http://box:11434"}),
        ({"OLLAMA_HOST": "unix:///run/ollama"}, {}),
        ({"GOOGLE_GEMINI_BASE_URL": "http://a", "GROQ_BASE_URL": "http://b"},
         {"gemini": "http://a", "groq": "http://b"}),
    ],
)  # fmt: skip
def test_addresses_in_the_environment_become_upstreams(
    environ: Mapping[str, str], adopted: Mapping[str, str]
) -> None:
    assert adopted_upstreams(environ) == adopted


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "127.0.0.1,localhost"),
        ("a,,b", "a,b,127.0.0.1,localhost"),
        ("localhost", "localhost,127.0.0.1"),
        ("127.0.0.1,localhost", "127.0.0.1,localhost"),
    ],
)
def test_the_way_to_us_needs_no_proxy(before: str, after: str) -> None:
    child = child_environment({"no_proxy": before}, URL, dummy_keys=False)
    assert child["no_proxy"] == after


def test_the_operators_environment_is_not_changed() -> None:
    base = {"OPENAI_BASE_URL": "https://gateway.example/v1"}
    child_environment(base, URL, dummy_keys=True)
    assert base == {"OPENAI_BASE_URL": "https://gateway.example/v1"}


def test_exports_can_be_pasted_into_a_shell() -> None:
    assert f"export OPENAI_BASE_URL={URL}/v1" in exports(URL)
    assert all(it.startswith("export ") and " " not in it[7:] for it in exports(URL))
