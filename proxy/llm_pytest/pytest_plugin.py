"""The pytest plugin: with `--llm`, test definitions in YAML are pytest items.

Without `--llm` it does nothing, and imports no other module of the package.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

_PROXY_VARIABLE = "LLM_PROXY_MODE"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and ini keys."""
    group = parser.getgroup("llm-pytest", "tests that a model runs")
    group.addoption(
        "--llm", action="store_true",
        help="Collect test definitions (YAML) in tests/llm, and let a model run them.",
    )  # fmt: skip
    group.addoption(
        "--llm-provider", metavar="NAME", default="",
        help="Run them with this provider, whatever the definitions name (default: claude-code).",
    )  # fmt: skip
    group.addoption(
        "--llm-model", metavar="MODEL", default="",
        help="Run them with this model, whatever the definitions name.",
    )  # fmt: skip
    group.addoption(
        "--llm-repeat", metavar="N", type=int, default=1,
        help="Run each of them N times with the live model, and count the verdicts.",
    )  # fmt: skip
    parser.addini("llm_provider", "Provider of test definitions that name none.", default="")
    parser.addini("llm_model", "Model of test definitions that name none.", default="")
    parser.addini(
        "llm_allowed_hosts", "Hosts that the tools http_* may reach besides this machine.",
        type="args",
    )  # fmt: skip
    parser.addini(
        "llm_prices", "Prices for the summary, one line per model: `gpt-4o = 2.50 10.00` is USD "
        "per million input tokens and output tokens.",
        type="linelist",
    )  # fmt: skip


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    """In CI, replay by default: before the plugin of the proxy reads its mode."""
    options = early_config.known_args_namespace
    is_ci = os.environ.get("CI", "").lower() not in {"", "0", "false"}
    is_chosen = (
        getattr(options, "llm_proxy", None)
        or os.environ.get(_PROXY_VARIABLE)
        or early_config.getini("llm_proxy")
    )
    if options.llm and is_ci and not is_chosen and options.llm_repeat == 1:
        options.llm_proxy = "replay"
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """With `--llm`, register the hooks that collect and run test definitions."""
    config.addinivalue_line("markers", "llm: a test definition that a model runs (set by --llm)")
    if config.option.llm:
        from llm_pytest.collection import LLMTests  # noqa: PLC0415 # only if it is used

        config.pluginmanager.register(LLMTests(config))
