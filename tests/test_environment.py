"""The environment of a child process, and the upstreams adopted from the operator's."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

import pytest

from case_tables import each_row
from in_process_proxy import settings
from llm_proxy.errors import UsageError
from llm_proxy.providers import API_KEY_VARIABLES, BASE_URL_VARIABLES, DUMMY_API_KEY
from llm_proxy.shell.running.environment import (
    adopted_upstreams,
    child_environment,
    dummy_key_variables,
    export_lines,
    is_local_url,
    providers_with_v1,
)
from llm_proxy.shell.running.settings import parse_upstreams

URL = "http://127.0.0.1:4777"
ALL_KEYS = set(API_KEY_VARIABLES)
UPSTREAM_VARIABLES = {
    name: variable.provider for name, variable in BASE_URL_VARIABLES.items() if variable.is_upstream
}


@each_row(
    ("environ", "adopted"),
    [
        ({}, {}),
        ({"OPENAI_BASE_URL": "https://gateway.example/v1"}, {"openai": "https://gateway.example/v1"}),
        ({"OPENAI_BASE_URL": ""}, {}),
        ({"OPENAI_BASE_URL": " \t"}, {}),
        ({"OPENAI_BASE_URL": " https://a/v1\n"}, {"openai": "https://a/v1"}),
        ({"OPENAI_BASE_URL": "HTTPS://A/v1"}, {"openai": "https://A/v1"}),
        ({"OPENAI_API_BASE": "http://b/v1"}, {"openai": "http://b/v1"}),
        ({"OPENAI_API_BASE": "b", "OPENAI_BASE_URL": "http://a/v1"}, {"openai": "http://a/v1"}),
        ({"OPENAI_API_BASE": "http://b/v1", "OPENAI_BASE_URL": " "}, {"openai": "http://b/v1"}),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:4777/@s/v1"},
         {"openai": "http://127.0.0.1:4777/@s/v1"}),
        ({"MISTRAL_BASE_URL": "http://a/v1"}, {"mistral": "http://a/v1"}),
        ({"AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "http://a"}, {"bedrock": "http://a"}),
        ({"OLLAMA_HOST": "http://box:11434"}, {"ollama": "http://box:11434"}),
        ({"OLLAMA_HOST": "box:8080"}, {"ollama": "http://box:8080"}),
        ({"OLLAMA_HOST": "box"}, {"ollama": "http://box:11434"}),
        ({"OLLAMA_HOST": "box/sub"}, {"ollama": "http://box:11434/sub"}),
        ({"OLLAMA_HOST": "box:"}, {"ollama": "http://box:11434"}),
        ({"OLLAMA_HOST": ":8080"}, {"ollama": "http://127.0.0.1:8080"}),
        ({"OLLAMA_HOST": " 0.0.0.0 "}, {"ollama": "http://0.0.0.0:11434"}),
        ({"OLLAMA_HOST": "[::1]"}, {"ollama": "http://[::1]:11434"}),
        ({"OLLAMA_HOST": "[::1]:80"}, {"ollama": "http://[::1]:80"}),
        ({"OLLAMA_HOST": "::1"}, {"ollama": "http://[::1]:11434"}),
        ({"GOOGLE_GEMINI_BASE_URL": "http://a", "GROQ_BASE_URL": "http://b"},
         {"gemini": "http://a", "groq": "http://b"}),
    ],
)  # fmt: skip
def test_addresses_in_the_environment_become_upstreams(
    environ: Mapping[str, str], adopted: Mapping[str, str]
) -> None:
    assert adopted_upstreams(environ) == adopted


@each_row("name", sorted(UPSTREAM_VARIABLES))
@each_row(
    ("value", "expected_message"),
    [
        ("http://gate way/v1", "'http://gate way/v1' is not an http:// or https:// URL"),
        ("ftp://gateway/v1", "'ftp://gateway/v1' is not an http:// or https:// URL"),
        ("https:/gateway/v1", "'https:/gateway/v1' is not an http:// or https:// URL"),
        ("http://", "'http://' is not an http:// or https:// URL"),
        ("http://a:b", "'http://a:b' is not an http:// or https:// URL"),
        ("http://a/\x1b[31m", r"'http://a/\\x1b[31m' is not an http:// or https:// URL"),
        (
            "http://me:canary@gw/v1",
            "expected a URL without user, query and fragment, such as 'http://gw/v1'",
        ),
        (
            "http://canary@gw/v1",
            "expected a URL without user, query and fragment, such as 'http://gw/v1'",
        ),
        ("http://me:canary/1@gw/v1", "'http://gw/v1' is not an http:// or https:// URL"),
        (
            "http://gw/v1?key=canary",
            "expected a URL without user, query and fragment, such as 'http://gw/v1'",
        ),
        (
            "http://gw/v1#canary",
            "expected a URL without user, query and fragment, such as 'http://gw/v1'",
        ),
        (
            "http://gw/v1?",
            "expected a URL without user, query and fragment, such as 'http://gw/v1'",
        ),
    ],
)
def test_a_value_that_is_no_plain_url_is_refused_with_its_variable(
    name: str, value: str, expected_message: str
) -> None:
    with pytest.raises(UsageError) as error:
        adopted_upstreams({name: value})
    message = str(error.value)
    assert message.startswith(f"{name}: {expected_message}")
    assert message.endswith(f"; correct or unset {name}")
    assert "canary" not in message


def test_a_key_in_place_of_an_address_is_not_shown() -> None:
    with pytest.raises(UsageError) as error:
        adopted_upstreams({"OPENAI_BASE_URL": "sk-proj-canary-canary"})
    assert "canary" not in str(error.value)


@pytest.mark.parametrize("pair", ["openai=HTTP://A/v1", " openai = hTTp://A/v1 "])
def test_a_scheme_may_be_written_in_capitals(pair: str) -> None:
    assert parse_upstreams([pair]) == {"openai": "http://A/v1"}


def test_an_explicit_upstream_makes_the_variable_irrelevant() -> None:
    environ = {"OPENAI_BASE_URL": "nonsense", "OPENAI_API_BASE": "too", "GROQ_BASE_URL": "http://g"}
    assert adopted_upstreams(environ, {"openai"}) == {"groq": "http://g"}


def test_the_clients_that_are_given_a_v1_are_known() -> None:
    assert providers_with_v1(UPSTREAM_VARIABLES.values()) == {"openai", "mistral"}
    assert providers_with_v1(["mistral", "groq"]) == {"mistral"}


@each_row(
    ("before", "after"),
    [
        ("", "127.0.0.1,localhost"),
        ("a,,b", "a,b,127.0.0.1,localhost"),
        ("localhost", "localhost,127.0.0.1"),
        ("127.0.0.1,localhost", "127.0.0.1,localhost"),
    ],
)
def test_no_proxy_covers_the_proxys_own_address(before: str, after: str) -> None:
    child = child_environment({"no_proxy": before}, URL)
    assert child["no_proxy"] == after


@each_row(
    ("mode", "upstream", "environ", "with_dummies"),
    [
        ("replay", "", {}, ALL_KEYS),
        ("simulate", "", {}, ALL_KEYS),
        ("auto", "", {}, ALL_KEYS),
        ("replay", "", {"OPENAI_API_KEY": "its own"}, ALL_KEYS - {"OPENAI_API_KEY"}),
        ("record", "", {}, set()),
        ("record", "openai=http://127.0.0.1:8000", {}, {"OPENAI_API_KEY"}),
        ("record", "openai=http://127.0.0.1:8000", {"OPENAI_API_KEY": ""}, {"OPENAI_API_KEY"}),
        ("record", "openai=http://127.0.0.1:8000", {"OPENAI_API_KEY": "its own"}, set()),
        ("record", "mistral=http://localhost", {}, {"MISTRAL_API_KEY"}),
        ("record", "azure=http://[::1]:1/", {}, {"AZURE_OPENAI_API_KEY"}),
        ("record", "deepseek=http://localhost", {}, set()),
        ("record", "openai=https://llm.example.com/v1", {}, set()),
        ("record", "default=http://vllm:8000", {}, ALL_KEYS),
        ("record", "default=https://llm.example.com", {}, set()),
    ],
)
def test_dummy_keys_are_for_providers_whose_upstream_needs_no_key(
    tmp_path: Path,
    mode: str,
    upstream: str,
    environ: Mapping[str, str],
    with_dummies: AbstractSet[str],
) -> None:
    run_settings = settings(tmp_path, upstreams=parse_upstreams([upstream] if upstream else []))
    variables = dummy_key_variables(mode, run_settings, environ)
    assert set(variables) == with_dummies
    child = child_environment(environ, URL, variables)
    assert {name for name in ALL_KEYS if child.get(name) == DUMMY_API_KEY} == with_dummies


@each_row(
    ("host", "is_local"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3:8000", True),
        ("[::1]:8000", True),
        ("0.0.0.0:11434", True),
        ("LOCALHOST", True),
        ("app.localhost:80", True),
        ("vllm:8000", True),
        ("192.168.1.7:8000", False),
        ("[2001:db8::1]:8000", False),
        ("api.openai.com", False),
        ("host.docker.internal", False),
    ],
)
def test_a_local_url_is_of_this_machine_or_has_a_name_without_a_dot(
    host: str, is_local: bool
) -> None:
    assert is_local_url(f"http://{host}/v1") is is_local


def test_a_provider_without_an_address_has_no_local_url() -> None:
    assert not is_local_url(None)


def test_the_operators_environment_is_not_changed() -> None:
    base = {"OPENAI_BASE_URL": "https://gateway.example/v1"}
    child_environment(base, URL, ["OPENAI_API_KEY"])
    assert base == {"OPENAI_BASE_URL": "https://gateway.example/v1"}


def test_exports_can_be_pasted_into_a_shell() -> None:
    assert f"export OPENAI_BASE_URL={URL}/v1" in export_lines(URL)
    assert all(
        export_line.startswith("export ") and " " not in export_line[7:]
        for export_line in export_lines(URL)
    )
