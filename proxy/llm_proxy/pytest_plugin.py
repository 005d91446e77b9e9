"""The pytest plugin: each test is a session of a proxy that runs beside pytest.

Without `--llm-proxy`, the ini key `llm_proxy`, the variable `LLM_PROXY_MODE`, the marker and the
fixture it does nothing: it imports no other module of the package, starts no process and changes no
variable.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from llm_proxy.pytest_sessions import ProxySessions
    from llm_proxy.python_api import ProxySession

MODE_VARIABLE: Final = "LLM_PROXY_MODE"
"""The environment variable with the mode, as `--llm-proxy` sets it."""
_MODES: Final = ("replay", "record", "auto", "simulate", "off")
_NAME: Final = "llm_proxy"
"""The name of the marker and of the fixture."""
_MARKER_HELP: Final = (
    "llm_proxy(mode=None, scenario=None, scenarios=None, faults=(), pace=None, match=None, "
    "normalise=()): run the test with llm-proxy; the test fails if no request reaches the proxy"
)


@dataclass
class _Run:
    """The mode of this pytest process, and its sessions if the proxy is used."""

    mode: str
    """The mode for all tests; empty if only marked tests use the proxy."""
    sessions: ProxySessions | None = None

    def activate(self, config: pytest.Config) -> ProxySessions:
        """Register the hooks for tests, once."""
        from llm_proxy.pytest_sessions import ProxySessions  # noqa: PLC0415 # only if it is used

        if self.sessions is None:
            self.sessions = ProxySessions(config, self.mode, uses_proxy)
            config.pluginmanager.register(self.sessions)
        return self.sessions


_RUN: Final = pytest.StashKey[_Run]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and ini keys."""
    group = parser.getgroup("llm-proxy", "record and replay of LLM APIs")
    group.addoption(
        "--llm-proxy", choices=_MODES, metavar="MODE",
        help=f"Run all tests with llm-proxy: {', '.join(_MODES)}. Tests with the marker llm_proxy "
        "use replay by default; off runs them without llm-proxy.",
    )  # fmt: skip
    group.addoption(
        "--llm-proxy-keep-failed", action="store_true",
        help="Let recordings of failed tests replace older ones.",
    )  # fmt: skip
    parser.addini("llm_proxy", "Mode of llm-proxy for all tests, as --llm-proxy.", default="")


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Iterator[None]:
    """Start the proxy before conftest files and test modules create clients."""
    _set_up(early_config)
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; start the proxy if the plugin was loaded late."""
    config.addinivalue_line("markers", _MARKER_HELP)
    _set_up(config)
    run = config.stash.get(_RUN, None)
    if run is not None and run.sessions is not None and _is_xdist_controller(config):
        run.sessions.stop_proxy()  # it has imported the conftest files, and runs no test


def _set_up(config: pytest.Config) -> None:
    """Create the plugin of this run, once; with a mode for all tests, start its proxy."""
    namespace = config.known_args_namespace
    if _RUN in config.stash or namespace.help or namespace.version:
        return
    option = getattr(namespace, "llm_proxy", None)  # missing if a conftest file loads the plugin
    mode = option or os.environ.get(MODE_VARIABLE, "") or config.getini("llm_proxy")
    if mode and mode not in _MODES:
        raise pytest.UsageError(f"llm_proxy: unknown mode {mode!r}; known: {', '.join(_MODES)}")
    run = config.stash[_RUN] = _Run(mode)
    if mode not in {"", "off"}:
        run.activate(config).start_proxy().patch_environment()


def _is_xdist_controller(config: pytest.Config) -> bool:
    namespace = config.known_args_namespace
    distributes = any(getattr(namespace, name, None) for name in ("numprocesses", "tx"))
    return distributes and "PYTEST_XDIST_WORKER" not in os.environ


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Activate the plugin if a test uses it."""
    run = config.stash[_RUN]
    if run.mode != "off" and any(map(uses_proxy, items)):
        run.activate(config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add up the counts of an xdist worker."""
    if totals := getattr(node, "workeroutput", {}).get("llm_proxy"):
        node.config.stash[_RUN].activate(node.config).totals.add_worker(totals)


@pytest.fixture
def llm_proxy(request: pytest.FixtureRequest) -> ProxySession:
    """The session of this test: its base URLs, calls, misses, scenario and faults."""
    run = request.config.stash[_RUN]
    if run.mode == "off":
        pytest.skip("the test needs llm-proxy, and --llm-proxy=off is set")
    return run.activate(request.config).session_for_fixture(request.node)


def run_mode(config: pytest.Config) -> str:
    """The mode of all tests; empty if only marked tests use the proxy.

    In CI, `auto` is `replay`.
    """
    run = config.stash.get(_RUN, None)
    if run is None:
        return ""
    return run.mode if run.sessions is None else run.sessions.mode


def running_session(config: pytest.Config) -> ProxySession | None:
    """The session of the running test; None if it does not use the proxy."""
    run = config.stash.get(_RUN, None)
    return None if run is None or run.sessions is None else run.sessions.running_session


def uses_proxy(item: pytest.Item) -> bool:
    """Whether a test asks for the proxy, by its marker or its fixture."""
    has_fixture = _NAME in getattr(item, "fixturenames", ())
    return has_fixture or item.get_closest_marker(_NAME) is not None
