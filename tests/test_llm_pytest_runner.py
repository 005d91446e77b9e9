"""One test from its definition to its verdict, run by models that behave well, and badly."""

from __future__ import annotations

import inspect
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import pytest

from llm_proxy import LLMProxy
from llm_proxy.errors import LlmProxyError
from llm_proxy.turns import ToolResult
from llm_pytest import runner
from llm_pytest.definitions import load_definition
from llm_pytest.errors import PluginFailed, ProviderFailed
from llm_pytest.models import Verdict
from llm_pytest.providers import DEFAULT_PROVIDER, PROVIDERS, get_provider
from llm_pytest.providers.base import LLMProvider, ProviderContext
from llm_pytest.providers.chat import OpenAIProvider
from llm_pytest.runner import RunOptions, TestRun, run_llm_test, run_test
from llm_pytest.toolset import make_toolset

DEFINITION: Final = """
    name: a door opens
    timeout: 20
    max_turns: 4
    steps:
      - name: Open the door
        do: Open the door.
        expect: It is open.
"""
PLUGIN: Final = '''
    """A door."""

    import asyncio
    import time

    import pytest

    from llm_pytest.plugin_base import LLMPlugin


    class Door(LLMPlugin):
        name = "door"
        cleanups = []

        def __init__(self) -> None:
            global opened
            opened = False
            self.checks = []

        async def open(self, key: str = "") -> dict:
            """Open the door."""
            print("the door opens")
            return {"open": True, "key": key}

        async def jam(self) -> dict:
            """Jam the door."""
            raise RuntimeError("the door is jammed")

        async def wait(self) -> dict:
            """Wait at the door."""
            await asyncio.sleep(60)

        async def block(self) -> dict:
            """Block the door."""
            time.sleep(3)

        async def fail(self) -> dict:
            """Fail as a test does."""
            pytest.fail("the door is stuck")

        async def interrupt(self) -> dict:
            """Raise what Ctrl-C raises."""
            raise KeyboardInterrupt

        async def check(self) -> dict:
            """Check that the door is open, which it is the second time."""
            self.checks.append(1)
            assert len(self.checks) == 2, "the door is closed"
            return {}

        @property
        def broken(self) -> str:
            raise RuntimeError("no tool")

        async def leave(self) -> dict:
            """Leave."""
            raise SystemExit(3)

        def key(self) -> str:
            """Not a coroutine function: no tool."""
            return ""

        async def cleanup(self) -> None:
            self.cleanups.append(1)

        async def get_tools(self) -> list:
            return []

        async def call_tool(self) -> None: ...

        async def _hidden(self) -> None: ...
'''
PASS: Final = json.dumps({"verdict": "PASS", "reason": "It is open.", "steps": [], "issues": []})
OPEN: Final = {"tool_calls": [{"name": "door_open", "args": {"step": "1"}}]}


@dataclass(frozen=True)
class Project:
    """A project with a definition and a plugin."""

    definition: Path
    environ: Mapping[str, str]

    @property
    def plugins(self) -> Path:
        """The folder of the plugins."""
        return self.definition.parent / "plugins"

    def run(self, **options: Any) -> TestRun:
        """Run the definition with the scripted model."""
        spec = load_definition(self.definition)
        given = {"provider": "openai", "model": "m", "environ": self.environ, **options}
        return run_test(spec, self.definition, RunOptions(**given))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    definition = tmp_path / "tests" / "llm" / "door.yaml"
    (definition.parent / "plugins").mkdir(parents=True)
    definition.write_text(dedent(DEFINITION))
    (definition.parent / "plugins" / "door.py").write_text(dedent(PLUGIN))
    return Project(definition, {})


@contextmanager
def model(project: Project, *responses: Any) -> Iterator[Project]:
    """The project with a model that gives these responses; the last one for ever."""

    def respond(request: Any) -> Any:
        parts = [part for message in request.conversation.messages for part in message.parts]
        count = sum(isinstance(part, ToolResult) for part in parts)
        response = responses[min(count, len(responses) - 1)]
        return response(request) if callable(response) else response

    with LLMProxy(
        "simulate", respond=respond, in_process=True, pace="instant", patch_environment=False
    ) as proxy:
        yield Project(project.definition, dict(proxy.environment))


@pytest.mark.shows("003-02", "003-19")
def test_run_llm_test_returns_the_verdict(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    signature = inspect.signature(run_llm_test)
    assert {name: each.default for name, each in signature.parameters.items()} == {
        "spec": inspect.Parameter.empty,
        "yaml_path": inspect.Parameter.empty,
        "timeout": None,
        "verbose": False,
        "provider": "claude-code",
    }
    project.definition.write_text(f"{dedent(DEFINITION)}model: m\n")

    with model(project, OPEN, PASS) as with_model:
        for name, value in with_model.environ.items():
            monkeypatch.setenv(name, value)
        spec = load_definition(project.definition)
        verdict = run_llm_test(spec, project.definition, provider="openai")

    assert verdict == Verdict("PASS", "It is open.")


def test_a_run_has_the_evidence_and_what_it_used(project: Project) -> None:
    with model(project, OPEN, PASS) as with_model:
        run = with_model.run()

    assert run.outcome == Verdict("PASS", "It is open.")
    assert [(call.tool, call.step, call.arguments, call.result) for call in run.calls] == [
        ("door_open", "1", {}, {"open": True, "key": ""})
    ]
    assert (run.usage.turns, run.has_verdict) == (2, True)
    assert run.usage.input_tokens
    assert run.usage.output_tokens
    assert "Open the door." in run.prompt


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "args": {"step": "1"} | arguments}]}


@dataclass(frozen=True)
class Case:
    """Responses of a model, and what a run results in."""

    responses: tuple[Any, ...]
    verdict: str
    reason: str
    results: tuple[Any, ...] = ()


UNCHECKED: Final = (
    'the model\'s verdict is PASS, but it has checked nothing in step 1 "Open the door"; its '
    "reason: It is open."
)
CASES: Final = {
    "prose": Case(
        ("I opened the door.",), "UNCLEAR",
        "the last response contains no JSON object with a verdict: I opened the door.",
    ),
    "half JSON": Case(
        ('{"verdict": "PASS", ',), "UNCLEAR",
        'the last response contains no JSON object with a verdict: {"verdict": "PASS",',
    ),
    "two verdicts": Case(
        (OPEN, f'{PASS} {{"verdict": "FAIL"}}'), "UNCLEAR",
        "the last response contains 2 verdicts: PASS, FAIL", ({"open": True, "key": ""},),
    ),
    "no tool": Case(
        (PASS,), "UNCLEAR",
        "the model's verdict is PASS, but it called no tool; its reason: It is open.",
    ),
    "calls without end": Case(
        (OPEN,), "UNCLEAR",
        "no verdict within 4 responses; the limit is max_turns of the definition",
        ({"open": True, "key": ""},) * 4,
    ),
    "an unknown tool": Case(
        (tool("door_close"), PASS), "UNCLEAR", UNCHECKED,
        ({"error": 'Tool "door_close" not found'},),
    ),
    "wrong arguments": Case(
        (tool("door_open", key=1), PASS), "UNCLEAR", UNCHECKED,
        ({"error": "ValidationError: Expected `str`, got `int` - at `$.key`"},),
    ),
    "a plugin that raises": Case(
        (tool("door_jam"), PASS), "UNCLEAR", UNCHECKED,
        ({"error": "RuntimeError: the door is jammed"},),
    ),
    "a plugin that fails as a test does": Case(
        (OPEN, tool("door_fail"), PASS), "FAIL",
        "the model's verdict is PASS, but 1 assertion failed; its reason: It is open.",
        ({"open": True, "key": ""}, {"error": "Failed: the door is stuck"}),
    ),
    "a plugin that interrupts": Case(
        (tool("door_interrupt"), PASS), "UNCLEAR", UNCHECKED,
        ({"error": "RuntimeError: it raised KeyboardInterrupt"},),
    ),
    "a check of a plugin that passes the second time": Case(
        (tool("door_check", label="open"), tool("door_check", label="open"), PASS), "PASS",
        "It is open.", ({"passed": False, "error": "the door is closed"}, {}),
    ),
    "a check of a plugin without a label": Case(
        (tool("door_check"), tool("door_check"), PASS), "FAIL",
        "the model's verdict is PASS, but 1 assertion failed; its reason: It is open.",
        ({"passed": False, "error": "the door is closed"}, {}),
    ),
    "labels that are null": Case(
        (
            tool("assert_equals", actual=1, expected=2, label=None, step=None),
            tool("assert_equals", actual=1, expected=1, label=None, step=None),
            PASS,
        ),
        "FAIL", "the model's verdict is PASS, but 1 assertion failed; its reason: It is open.",
        (
            {"passed": False, "problem": "the values differ", "actual": 1, "expected": 2},
            {"passed": True, "actual": 1, "expected": 1},
        ),
    ),
    "a plugin that exits": Case(
        (tool("door_leave"), PASS), "UNCLEAR", UNCHECKED,
        ({"error": "RuntimeError: it called sys.exit(3)"},),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_whatever_a_model_does_a_run_ends_with_a_verdict(project: Project, case: Case) -> None:
    with model(project, *case.responses) as with_model:
        run = with_model.run()

    assert isinstance(run.outcome, Verdict)
    assert (run.outcome.verdict, run.outcome.reason) == (case.verdict, case.reason)
    assert tuple(call.result for call in run.calls) == case.results


@pytest.mark.shows("003-14", "003-23")
@pytest.mark.parametrize("name", ["door_wait", "door_block"])
def test_a_tool_that_hangs_ends_with_the_time_of_the_test(project: Project, name: str) -> None:
    began = time.monotonic()
    with model(project, tool(name, step="1"), PASS) as with_model:
        run = with_model.run(timeout=0.4)

    assert run.outcome == Verdict(
        "FAIL", f"no verdict within 0.4 s; the last call was {name} in step 1"
    )
    assert time.monotonic() - began < 15


def test_a_model_that_never_responds_ends_with_the_time_of_the_test(project: Project) -> None:
    released = threading.Event()

    def wait(_: Any) -> str:
        released.wait(20)
        return PASS

    with model(project, wait) as with_model:
        run = with_model.run(timeout=0.3)
        released.set()

    assert run.outcome == Verdict("FAIL", "no verdict within 0.3 s; no tool was called")


@pytest.mark.parametrize("ends_in_time", [True, False])
def test_plugins_clean_up_at_the_end(project: Project, *, ends_in_time: bool) -> None:
    with model(project, OPEN if ends_in_time else tool("door_wait"), PASS) as with_model:
        with_model.run(timeout=20 if ends_in_time else 0.3)

    import sys  # noqa: PLC0415 # the module of the plugin

    assert sys.modules["llm_pytest_plugins.door"].Door.cleanups == [1]


def test_a_cleanup_that_fails_is_in_the_evidence(project: Project) -> None:
    plugin = project.plugins / "door.py"
    plugin.write_text(plugin.read_text().replace("self.cleanups.append(1)", "1 / 0"))

    with model(project, OPEN, PASS) as with_model:
        run = with_model.run()

    assert run.outcome == Verdict("PASS", "It is open.")
    assert [(call.tool, call.step, call.result) for call in run.calls[1:]] == [
        ("door.cleanup", "teardown", {"error": "ZeroDivisionError: division by zero"})
    ]


def test_an_error_of_the_provider_is_no_verdict(project: Project, unreachable_url: str) -> None:
    broken = Project(project.definition, {"OPENAI_BASE_URL": unreachable_url})

    run = broken.run(timeout=30)

    assert isinstance(run.outcome, ProviderFailed)
    assert str(run.outcome).startswith("openai: ")
    assert not run.has_verdict


def test_a_provider_without_a_default_model_needs_one(project: Project) -> None:
    run = project.run(provider="ollama", model="")

    assert str(run.outcome) == (
        "ollama has no default model: set model in the definition, or --llm-model"
    )


@pytest.mark.shows("003-17", "003-18")
def test_providers_are_found_by_name(tmp_path: Path) -> None:
    context = ProviderContext("", make_toolset(tmp_path), tmp_path, {})

    assert DEFAULT_PROVIDER == "claude-code"
    assert all(isinstance(get_provider(name, context), kind) for name, kind in PROVIDERS.items())
    with pytest.raises(ValueError, match="Unknown provider") as raised:
        get_provider("openay", context)
    assert str(raised.value) == (
        "Unknown provider: openay. Available: ['claude-code', 'openai', 'openai-responses', "
        "'anthropic', 'gemini', 'ollama', 'bedrock']"
    )


@pytest.mark.shows("003-13")
def test_a_provider_must_execute_tests_and_call_tools() -> None:
    assert LLMProvider.__abstractmethods__ == {"execute_test", "call_tool"}
    execute_test = inspect.signature(LLMProvider.execute_test)
    assert [*execute_test.parameters] == ["self", "spec", "tools", "timeout", "verbose"]
    assert execute_test.parameters["verbose"].default is False
    assert [*inspect.signature(LLMProvider.call_tool).parameters] == ["self", "name", "arguments"]
    assert all(
        inspect.iscoroutinefunction(method)
        for method in (LLMProvider.execute_test, LLMProvider.call_tool)
    )


@pytest.mark.shows("003-15", "003-16")
def test_an_api_provider_offers_the_tools_and_returns_each_result(project: Project) -> None:
    requests: list[Any] = []
    first = {"name": "door_open", "args": {"key": "a"}}
    second = {"name": "door_open", "args": {"key": "b"}}

    def remember(response: Any) -> Callable[[Any], Any]:
        def respond(request: Any) -> Any:
            requests.append(request.body)
            return response

        return respond

    both = {"tool_calls": [first, second]}
    with model(project, remember(both), PASS, remember(PASS)) as with_model:
        run = with_model.run(model="")

    definitions = {
        each["name"]: each for each in make_toolset(project.definition.parents[2]).definitions()
    }
    asked, answered = requests
    assert asked["model"] == OpenAIProvider.default_model == "gpt-4"
    assert asked["tool_choice"] == "auto"
    assert {each["function"]["name"]: each["function"] for each in asked["tools"]} == {
        name: {
            "name": name,
            "description": each["description"],
            "parameters": each["inputSchema"],
        }
        for name, each in definitions.items()
    }
    call_ids = [call["id"] for call in answered["messages"][1]["tool_calls"]]
    assert [
        (message["tool_call_id"], json.loads(message["content"]))
        for message in answered["messages"][2:]
    ] == [(call_ids[0], {"open": True, "key": "a"}), (call_ids[1], {"open": True, "key": "b"})]
    assert [call.arguments for call in run.calls] == [{"key": "a"}, {"key": "b"}]


@pytest.mark.shows("003-24")
def test_verbose_mode_shows_calls_and_results_as_they_happen(project: Project) -> None:
    lines: list[str] = []
    with model(project, OPEN, PASS) as with_model:
        with_model.run(is_verbose=True, show=lines.append)
        with_model.run(is_verbose=False, show=lines.append)

    assert lines == ['door_open {"step":"1"}', '  → {"key": "", "open": true}', PASS]


@pytest.mark.shows("003-30", "003-31", "003-32")
def test_public_coroutine_methods_of_plugins_are_tools(project: Project) -> None:
    (project.plugins / "_ignored.py").write_text("raise RuntimeError")
    (project.plugins / "nothing.py").write_text("x = 1")
    (project.plugins / "lock.py").write_text(
        dedent("""
        from llm_pytest.plugin_base import LLMPlugin

        class Lock(LLMPlugin):
            async def turn(self) -> None: ...
        """)
    )

    tools = [each["name"] for each in make_toolset(project.definition.parents[2]).definitions()]

    assert [name for name in tools if not name.startswith(("http_", "assert_"))] == [
        "door_block", "door_check", "door_fail", "door_interrupt", "door_jam", "door_leave",
        "door_open", "door_wait", "lock_turn",
    ]  # fmt: skip


PLUGIN_HEAD: Final = "from llm_pytest.plugin_base import LLMPlugin\nclass P(LLMPlugin):\n"
UNUSABLE_PLUGINS: Final = {
    "a module that is missing": (
        "import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'",
    ),
    "a mistake in its syntax": ("def", "SyntaxError: invalid syntax"),
    "an exit": ("raise SystemExit('bye')", "SystemExit: bye"),
    "a constructor with arguments": (
        f"{PLUGIN_HEAD}    def __init__(self, x): ...",
        "missing 1 required positional argument: 'x'",
    ),
    "a method without a schema": (
        f"{PLUGIN_HEAD}    name = 'p'\n    async def f(self, *x): ...",
        "tool p_f: parameter *x cannot be passed by name",
    ),
    "a name that is taken": (
        f"{PLUGIN_HEAD}    name = 'door'\n    async def open(self): ...",
        "two tools have the name door_open",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("source", "message"), UNUSABLE_PLUGINS.values(), ids=UNUSABLE_PLUGINS)
def test_a_plugin_that_cannot_be_used_is_named(project: Project, source: str, message: str) -> None:
    (project.plugins / "zebra.py").write_text(source)

    with pytest.raises(PluginFailed) as raised:
        project.run()

    assert message in str(raised.value)
    assert "plugins" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_variable_of_the_environment_must_be_set(project: Project) -> None:
    text = dedent(DEFINITION).replace("do: Open the door.", 'do: "Open {{ env.DOOR }}."')
    project.definition.write_text(text)

    with pytest.raises(LlmProxyError, match="DOOR"):
        project.run()


@pytest.mark.shows("003-33")
def test_each_part_has_a_module_of_its_own() -> None:
    package = Path(runner.__file__).parent

    assert all(
        (package / name).is_file()
        for name in (
            "runner.py", "mcp_server.py", "plugin_base.py", "models.py", "providers/base.py",
            "templates/test_prompt.jinja2",
        )
    )  # fmt: skip
