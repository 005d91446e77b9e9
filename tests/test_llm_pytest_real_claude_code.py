"""Claude Code itself runs tests: recorded once, and replayed elsewhere, with real tool calls."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli_process import environment
from llm_project import DEFECTS, VERDICTS, LLMProject, LLMTestRun, scripted_model, shop_project
from llm_proxy.dialects import Dialect, DialectResponse
from llm_proxy.dialects.encoding import EncodeContext
from llm_proxy.exchange import Request
from llm_proxy.turns import Text, ToolCall, Turn, Usage
from llm_pytest.errors import ProviderFailed, UnreadableVerdict
from llm_pytest.models import TestSpec, TestStep, Verdict
from llm_pytest.providers.base import ProviderContext
from llm_pytest.providers.claude_code import ClaudeCodeProvider
from llm_pytest.toolset import ToolSet, make_toolset
from real_programs import CLAUDE_CODE, JUDGES, KEY
from scripted_provider import provider_script
from stub_upstream import Upstream, upstream

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(bool(CLAUDE_CODE.missing_reason), reason=CLAUDE_CODE.missing_reason),
]

COMMAND = shlex.join(["node", str(JUDGES / CLAUDE_CODE.name / CLAUDE_CODE.launcher)])
PLUGIN = '''
import asyncio
import os
from pathlib import Path

from llm_pytest.plugin_base import LLMPlugin


class Shop(LLMPlugin):
    async def order(self, item: str) -> dict[str, str]:
        """Order an item."""
        print("ordering")
        return {"item": item, "shop": os.environ["SHOP"]}

    async def hang(self) -> None:
        """Never end."""
        await asyncio.Event().wait()

    async def cleanup(self) -> None:
        await asyncio.sleep(1)  # longer than Claude Code waits for a server
        Path("cleaned").touch()
'''
ORDER = ToolCall("toolu_a", "mcp__llm_pytest__shop_order", '{"item": "tea", "step": "1"}')
HANG = ToolCall("toolu_a", "mcp__llm_pytest__shop_hang", "{}")
VERDICT = Text('{"verdict": "PASS", "reason": "There is tea."}')


@dataclass(frozen=True)
class Place:
    """A project, the Claude Code CLI, and a model that does as it is scripted."""

    root: Path
    model: Upstream
    toolset: ToolSet
    shown: list[str]

    async def run(
        self,
        *,
        prompt: str = "Test the shop.",
        verbose: bool = False,
        timeout_s: float = 60,
        max_turns: int = 5,
        key: str = KEY,
        token: str = "",
    ) -> Verdict:
        """Let the model run a test."""
        environ = environment(
            self.root.parent, ANTHROPIC_BASE_URL=self.model.url, ANTHROPIC_API_KEY=key,
            CLAUDE_CODE_OAUTH_TOKEN=token, LLM_PYTEST_CLAUDE=COMMAND, SHOP="the shop",
            NO_PROXY="127.0.0.1",
        )  # fmt: skip
        context = ProviderContext(
            prompt=prompt, toolset=self.toolset, project_root=self.root,
            environ=environ, show=self.shown.append,
        )  # fmt: skip
        spec = TestSpec(name="Buy", steps=(TestStep("Buy", "Buy tea."),), max_turns=max_turns)
        return await ClaudeCodeProvider(context).execute_test(spec, [], timeout_s, verbose)

    @property
    def left_processes(self) -> list[str]:
        """The processes of the project's tool server that still run."""
        command = ["ps", "-A", "-o", "args="]
        table = subprocess.run(command, capture_output=True, check=True)
        return [line for line in table.stdout.decode().splitlines() if str(self.root) in line]


@asynccontextmanager
async def place(
    folder: Path, *parts: ToolCall | Text, plugin: str = PLUGIN
) -> AsyncIterator[Place]:
    """A place whose model responds with these parts, one by one; the last one again and again."""
    root = folder / "project"
    plugins = root / "tests" / "llm" / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "shop.py").write_text(plugin)

    def respond(dialect: Dialect, request: Request, context: EncodeContext) -> DialectResponse:
        number = request.body.count(b'"type":"tool_result"')
        part = parts[min(number, len(parts) - 1)]
        return dialect.encode_response(request, [Turn((part,), usage=Usage(5, 3))], context)

    async with upstream(provider_script(respond)) as stub:
        yield Place(root, stub, ToolSet([]), [])


@pytest.mark.parametrize("verbose", [False, True])
async def test_the_model_calls_the_tools_of_the_project(tmp_path: Path, verbose: bool) -> None:
    async with place(tmp_path, ORDER, VERDICT) as shop:
        assert await shop.run(verbose=verbose) == Verdict("PASS", "There is tea.")

        [call] = shop.toolset.calls
        assert call.result == {"item": "tea", "shop": "the shop"}
        assert (call.step, call.is_error) == ("1", False)
        assert (shop.root / "cleaned").exists()
        assert shop.left_processes == []
        assert not (tmp_path / ".cache").exists()
        assert (
            shop.shown
            == [
                'shop_order {"item": "tea", "step": "1"}',
                '  → {"item":"tea","shop":"the shop"}',
                VERDICT.text,
            ]
            * verbose
        )


async def test_the_model_gets_the_prompt_and_the_tools_of_the_test(tmp_path: Path) -> None:
    file = tmp_path / "file.txt"
    file.write_text("the content of a file")
    prompt = f"Read @{file}."
    async with place(tmp_path, VERDICT) as shop:
        await shop.run(prompt=prompt)

        [(_, body)] = shop.model.requests
        request = json.loads(body)
        offered = {tool["name"].removeprefix("mcp__llm_pytest__") for tool in request["tools"]}
        assert offered == {each["name"] for each in make_toolset(shop.root).definitions()}
        assert request["messages"][0]["content"] == prompt
        assert file.read_bytes() not in body


async def test_a_login_and_a_key_send_the_same_requests(tmp_path: Path) -> None:
    async with place(tmp_path, ORDER, VERDICT) as shop:
        await shop.run()
        await shop.run(key="", token="sk-ant-oat01-canary")

        folder = rb"llm-pytest-[a-z0-9_]+"  # of each run
        bodies = [json.loads(re.sub(folder, b"", body)) for _, body in shop.model.requests]
        for body in bodies:
            del body["metadata"]
        assert bodies[:2] == bodies[2:]


async def test_at_the_timeout_the_tools_clean_up_and_all_processes_end(tmp_path: Path) -> None:
    async with place(tmp_path, HANG) as shop:
        with pytest.raises(TimeoutError):
            await shop.run(timeout_s=8)

        assert (shop.root / "cleaned").exists()
        assert shop.left_processes == []
        assert [call.tool for call in shop.toolset.calls] == ["shop_hang"]


async def test_a_model_that_never_stops_calling_tools_is_stopped(tmp_path: Path) -> None:
    async with place(tmp_path, ORDER) as shop:
        with pytest.raises(UnreadableVerdict, match="no verdict within 3 responses"):
            await shop.run(max_turns=3)

        assert len(shop.model.requests) == 3


async def test_a_server_that_cannot_start_costs_no_request(tmp_path: Path) -> None:
    async with place(tmp_path, VERDICT, plugin="import nonsense") as shop:
        with pytest.raises(ProviderFailed, match="No module named 'nonsense'"):
            await shop.run()

        assert shop.model.requests == []


async def test_without_a_login_the_failure_says_so(tmp_path: Path) -> None:
    async with place(tmp_path, VERDICT) as shop:
        with pytest.raises(ProviderFailed, match="claude-code: Not logged in"):
            await shop.run(key="")


def run_shop(
    project: LLMProject, mode: str, home: Path, *arguments: str, **variables: str
) -> LLMTestRun:
    """Run tests of the shop with Claude Code, with this home folder."""
    home.mkdir()
    return project.run(
        f"--llm-proxy={mode}", "--llm-provider=claude-code", *(arguments or ["tests/llm"]),
        variables={"HOME": str(home), "LLM_PYTEST_CLAUDE": COMMAND, **variables},
    )  # fmt: skip


@pytest.mark.shows("003-01", "003-02", "003-03", "003-05", "003-07", "003-29")
def test_the_tests_of_a_shop_have_the_same_verdicts_in_replay_elsewhere(tmp_path: Path) -> None:
    recorded = shop_project(tmp_path / "recorded")
    with scripted_model() as variables:
        first = run_shop(recorded, "record", tmp_path / "home", TZ="Etc/GMT+12", **variables)
    assert first.verdicts == VERDICTS, first.output
    elsewhere = recorded.copy(tmp_path / "another" / "place")
    log = tmp_path / "requests.log"

    # 26 hours later by local time: another date.
    run = run_shop(
        elsewhere, "replay", tmp_path / "empty home", "-v", "tests/llm",
        TZ="Etc/GMT-14", SHOP_LOG=str(log),
    )  # fmt: skip

    assert run.verdicts == VERDICTS, run.output
    assert "missed 0, 0 cassettes unused" in run.output
    assert log.read_text().splitlines().count("POST /carts") == 3
    assert not [*(tmp_path / "empty home").iterdir()]

    for defect, words in DEFECTS.items():
        broken = run_shop(
            elsewhere, "replay", tmp_path / defect, "tests/llm/checkout.yaml", SHOP_DEFECT=defect
        )
        assert broken.verdicts == {"checkout": "ERROR"}, broken.output
        assert words in broken.report("checkout")
