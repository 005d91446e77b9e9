"""Test definitions are ordinary pytest items: selected, counted and reported like others."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest

from cli_process import environment
from llm_project import LLMProject, scripted_model
from llm_proxy.turns import ToolResult
from waiting import wait_until

OPENAI: Final = ("--llm-provider=openai", "--llm-model=m")
VERDICTS: Final[dict[str, str | None]] = {
    "opens": "PASS",
    "stays": "FAIL",
    "wonders": "UNCLEAR",
    "rambles": None,
}


def definition(name: str, *lines: str) -> str:
    steps = "steps:\n  - {name: Look, do: Look at the door., expect: It is open.}\n"
    return "\n".join([f"name: the door {name}", *lines, steps])


def respond(request: Any) -> Any:
    """Look at the door, then return the verdict that the name of the test determines."""
    prompt = request.conversation.first_user_text
    name = next(name for name in VERDICTS if f"the door {name}" in prompt)
    parts = [part for message in request.conversation.messages for part in message.parts]
    if not any(isinstance(part, ToolResult) for part in parts):
        return {"tool_calls": [{"name": "door_look", "args": {"step": "1"}}]}
    if (verdict := VERDICTS[name]) is None:
        return "I looked at the door."
    issues = ["The door is stuck."] if verdict == "FAIL" else []
    steps = [{"name": "Look", "status": "fail" if issues else "pass", "details": "I looked."}]
    return json.dumps({"verdict": verdict, "reason": "I saw.", "steps": steps, "issues": issues})


PLUGIN: Final = '''
    import asyncio
    import os

    from llm_pytest.plugin_base import LLMPlugin

    class Door(LLMPlugin):
        name = "door"

        async def look(self) -> dict:
            """Look at the door."""
            await asyncio.sleep(float(os.environ.get("DOOR_S", "0")))
            return {"open": True}
'''


@pytest.fixture
def project(tmp_path: Path) -> LLMProject:
    folder = tmp_path / "project"
    (folder / "tests" / "llm" / "plugins").mkdir(parents=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "tests" / "llm" / "plugins" / "door.py").write_text(dedent(PLUGIN))
    return LLMProject(folder)


def write(project: LLMProject, **definitions: str) -> Path:
    """Write definitions by name; returns their folder."""
    folder = project.folder / "tests" / "llm"
    for name, text in definitions.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


@pytest.fixture
def model() -> Iterator[dict[str, str]]:
    """The variables with which a project uses the scripted model, live."""
    with scripted_model(respond) as variables:
        url = variables.pop("LLM_PROXY_UPSTREAM").removeprefix("default=")
        yield {**variables, "OPENAI_BASE_URL": f"{url}/v1"}


FOUR: Final = {
    "opens": definition("opens", "tags: [smoke, front]"),
    "stays": definition("stays", "tags: [smoke]"),
    "wonders": definition("wonders"),
    "rambles": definition("rambles"),
}


@pytest.mark.shows("003-01")
def test_each_definition_is_an_item_and_only_a_pass_passes(
    project: LLMProject, model: dict[str, str]
) -> None:
    write(project, **FOUR)

    run = project.run(*OPENAI, "tests/llm/", variables=model)

    assert run.verdicts == {
        "opens": "PASS", "stays": "FAIL", "wonders": "UNCLEAR", "rambles": "UNCLEAR",
    }  # fmt: skip
    assert "3 failed, 1 passed" in run.output
    report = run.report("the door stays")
    assert report.startswith("FAIL: I saw.\n")
    assert "  fail  Look  I looked.\n" in report
    assert 'step 1 "Look": door_look() → {"open": true}\n' in report
    assert "issues:\n  The door is stuck.\n" in report
    assert re.search(r"openai, 2 responses, [\d,]+ input tokens, [\d,]+ output tokens", report)
    assert run.report("the door wonders").startswith("UNCLEAR: I saw.\n")
    assert run.report("the door rambles").startswith(
        "UNCLEAR: the last response contains no JSON object with a verdict: I looked at the door.\n"
    )
    assert "Traceback" not in run.output


SELECTIONS: Final = {
    "by name": (("-k", "stays or wonders"), {"stays", "wonders"}),
    "by tag": (("-m", "smoke and not front", "--strict-markers"), {"stays"}),
    "by the marker of all": (("-m", "llm"), set(FOUR)),
    "by file": (("tests/llm/opens.yaml",), {"opens"}),
    "until the first failure": (
        ("-x", "tests/llm/stays.yaml", "tests/llm/wonders.yaml"),
        {"stays"},
    ),
    "in two processes": (("-n", "2", "tests/llm"), set(FOUR)),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "selected"), SELECTIONS.values(), ids=SELECTIONS)
def test_the_usual_options_select_tests(
    project: LLMProject, model: dict[str, str], arguments: tuple[str, ...], selected: set[str]
) -> None:
    write(project, **FOUR)

    run = project.run(*OPENAI, *arguments, variables=model)

    assert run.verdicts.keys() == selected, run.output


def test_tags_of_pytest_do_what_they_do_for_other_tests(
    project: LLMProject, model: dict[str, str]
) -> None:
    write(
        project,
        opens=definition("opens", "tags: [skip]"),
        stays=definition("stays", "tags: [xfail]"),
    )

    run = project.run(*OPENAI, variables=model)

    assert "1 skipped, 1 xfailed" in run.output


def test_a_junit_file_has_verdict_usage_and_report(
    project: LLMProject, model: dict[str, str]
) -> None:
    write(project, stays=FOUR["stays"])

    project.run(*OPENAI, "--junit-xml=report.xml", variables=model)

    [case] = ET.parse(project.folder / "report.xml").iter("testcase")  # noqa: S314 # our own
    properties = {each.get("name"): str(each.get("value")) for each in case.iter("property")}
    failure = case.find("failure")
    assert case.get("name") == "the door stays"
    assert properties["llm_verdict"] == "FAIL"
    assert properties["llm_usage"].startswith("openai, 2 responses, ")
    assert failure is not None
    assert "The door is stuck." in str(failure.text)


def test_files_are_collected_in_their_folder_or_by_name(
    project: LLMProject, model: dict[str, str]
) -> None:
    folder = write(project, opens=FOUR["opens"], _shared="no: definition")
    (folder / "deep").mkdir()
    (folder / "deep" / "stays.yml").write_text(FOUR["stays"])
    (project.folder / "compose.yaml").write_text("services: {}")
    (project.folder / "wonders.yaml").write_text(FOUR["wonders"])

    in_folder = project.run(*OPENAI, variables=model)
    by_name = project.run(*OPENAI, "wonders.yaml", variables=model)

    assert "1 failed, 1 passed" in in_folder.output
    assert "1 failed" in by_name.output
    assert "wonders" in by_name.output


def test_without_its_option_no_definition_is_collected(project: LLMProject) -> None:
    write(project, opens="not: a definition")

    assert "no tests ran" in project.run_without_llm("tests/llm").output


def test_a_definition_with_mistakes_is_reported_with_each_place(project: LLMProject) -> None:
    write(project, opens="name: the door opens\nsteps:\n  - {name: Look, doo: Look.}\ntimout: 3\n")

    run = project.run(*OPENAI)

    assert "1 error" in run.output
    assert "opens.yaml:3:18: $.steps[0].doo: unknown field 'doo'; did you mean 'do'?" in run.output
    assert "opens.yaml:4:1: $.timout: unknown field 'timout'; did you mean 'timeout'?" in run.output
    assert "Traceback" not in run.output


BROKEN: Final = {
    "a plugin": (
        (("plugins/zebra.py", "import no_such_module"),), (),
        "zebra.py: cannot load the plugin: ModuleNotFoundError: No module named 'no_such_module'",
    ),
    "a provider": ((), ("--llm-provider=openay",), "Unknown provider: openay. Available: ["),
    "a variable": (
        (("opens.yaml", definition("opens", 'description: "{{ env.DOOR_URL }}"')),), (),
        "the environment variable DOOR_URL is not set",
    ),
    "an allowed host": ((), ("-o", "llm_allowed_hosts=http://x/"), "http://x/"),
}  # fmt: skip


@pytest.mark.parametrize(("files", "arguments", "message"), BROKEN.values(), ids=BROKEN)
def test_what_keeps_a_test_from_running_is_one_sentence(
    project: LLMProject,
    files: tuple[tuple[str, str], ...],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    folder = write(project, opens=FOUR["opens"])
    for name, text in files:
        (folder / name).write_text(text)

    run = project.run(*OPENAI, *arguments)

    assert "1 failed" in run.output
    assert message in run.report("the door opens")
    assert "Traceback" not in run.output


REFUSED: Final = {
    "no repetition": (("--llm-repeat=0",), "--llm-repeat: expected at least 1, got 0"),
    "repetitions of a replay": (
        ("--llm-repeat=2", "--llm-proxy=replay"),
        "--llm-repeat runs tests live, and the mode of llm-proxy is replay: add --llm-proxy=off",
    ),
    "a price": (
        ("-o", "llm_prices=gpt-4o: 2"),
        (
            "llm_prices: 'gpt-4o: 2': expected MODEL = INPUT OUTPUT in USD per million tokens, "
            "such as gpt-4o = 2.50 10.00"
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), REFUSED.values(), ids=REFUSED)
def test_options_that_make_no_sense_are_refused(
    project: LLMProject, arguments: tuple[str, ...], message: str
) -> None:
    write(project, opens=FOUR["opens"])

    run = project.run(*arguments)

    assert run.pytest_run.exit_code == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {message}\n" in run.output


def test_repetitions_count_the_verdicts(project: LLMProject) -> None:
    write(project, opens=FOUR["opens"], stays=FOUR["stays"])
    runs: list[str] = []

    def respond_in_turn(request: Any) -> Any:
        response = respond(request)
        if isinstance(response, str) and "the door opens" in request.conversation.first_user_text:
            runs.append(response)
            return response.replace("PASS", "FAIL") if len(runs) == 2 else response  # one of them
        return response

    with scripted_model(respond_in_turn) as variables:
        url = variables.pop("LLM_PROXY_UPSTREAM").removeprefix("default=")
        live = {**variables, "OPENAI_BASE_URL": f"{url}/v1"}
        run = project.run(*OPENAI, "--llm-repeat=3", variables={**live, "CI": "true"})

    assert "4 failed, 2 passed" in run.output
    assert "opens.yaml::the door opens: 3 runs: 2 PASS, 1 FAIL (flaky)\n" in run.output
    assert "stays.yaml::the door stays: 3 runs: 3 FAIL\n" in run.output


def test_the_summary_has_the_cost_where_a_price_is_known(
    project: LLMProject, model: dict[str, str]
) -> None:
    write(project, opens=FOUR["opens"])

    run = project.run(*OPENAI, "-o", "llm_prices=m = 1000000 0", variables=model)

    [usage] = re.findall(r"([\d,]+) input tokens, \d+ output tokens, \$([\d.]+), ", run.output)
    assert usage[0].replace(",", "") == usage[1].removesuffix(".0000")


def test_verbose_mode_shows_what_happens(project: LLMProject, model: dict[str, str]) -> None:
    write(project, opens=FOUR["opens"])

    run = project.run(*OPENAI, "-v", variables=model)

    assert re.search(
        r'::the door opens \n?.*door_look {"step":"1"}\n  → {"open": true}\n{"verdict": "PASS"',
        run.output,
    )


def test_in_ci_tests_are_replayed_unless_another_mode_is_chosen(
    project: LLMProject, model: dict[str, str]
) -> None:
    write(project, opens=FOUR["opens"])

    in_ci = project.run(*OPENAI, variables={**model, "CI": "true"})
    live = project.run(*OPENAI, "--llm-proxy=off", variables={**model, "CI": "true"})

    assert in_ci.report("the door opens").startswith(
        "ERROR: this test has no recording\nto record it, run pytest --llm --llm-proxy=auto\n"
    )
    assert live.verdicts == {"opens": "PASS"}


def test_auto_records_only_what_changed(project: LLMProject) -> None:
    write(project, opens=FOUR["opens"], wonders=FOUR["wonders"])
    with scripted_model(respond) as variables:
        recorded = project.run(*OPENAI, "--llm-proxy=auto", variables=variables)
        write(project, opens=FOUR["opens"].replace("Look at", "Look hard at"))
        changed = project.run(*OPENAI, "--llm-proxy=auto", variables=variables)
    replayed = project.run(*OPENAI, "--llm-proxy=replay")

    assert "played 0 from 0 cassettes, recorded 4" in recorded.output
    assert "played 2 from 2 cassettes, recorded 2" in changed.output
    assert replayed.verdicts == changed.verdicts == {"opens": "PASS", "wonders": "UNCLEAR"}


def test_looser_rules_are_refused(project: LLMProject) -> None:
    write(project, opens=FOUR["opens"])
    (project.folder / "llm-proxy.toml").write_text('normalise = ["ignore=$.messages[*].content"]\n')

    run = project.run(*OPENAI, "--llm-proxy=replay")

    assert "1 error" in run.output
    assert "ignore=$.messages[*].content" in run.output
    assert "llm-proxy.toml" in run.output


def test_a_verdict_that_fails_is_recorded_and_a_timeout_keeps_the_older_recording(
    project: LLMProject,
) -> None:
    folder = write(project, stays=definition("stays", "timeout: 20"))
    with scripted_model(respond) as variables:
        first = project.run(*OPENAI, "--llm-proxy=record", variables=variables)
        before = sorted(path.read_bytes() for path in folder.parents[1].rglob("*.jsonl"))
        again = project.run(
            *OPENAI, "--llm-proxy=record", "--timeout=1",
            variables={**variables, "DOOR_S": "30"},
        )  # fmt: skip
        after = sorted(path.read_bytes() for path in folder.parents[1].rglob("*.jsonl"))

    assert first.verdicts == {"stays": "FAIL"}
    assert "1 failed" in again.output
    assert before == after
    assert project.run(*OPENAI, "--llm-proxy=replay").verdicts == {"stays": "FAIL"}


def test_rules_of_a_marker_do_not_replace_those_of_tests(project: LLMProject) -> None:
    folder = write(project, opens=FOUR["opens"])
    (folder / "conftest.py").write_text(
        dedent("""
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.llm_proxy(normalise=["ignore=$.messages"]))
        """)
    )

    run = project.run(*OPENAI, "--llm-proxy=replay")

    assert "normalise = ignore=$.messages is not allowed for a test that a model runs" in run.output


def test_a_new_test_is_compared_with_no_other_test(project: LLMProject) -> None:
    write(project, opens=FOUR["opens"])
    with scripted_model(respond) as variables:
        project.run(*OPENAI, "--llm-proxy=record", variables=variables)
    write(project, stays=FOUR["stays"])

    run = project.run(*OPENAI, "--llm-proxy=replay")

    assert run.report("the door stays").startswith("ERROR: this test has no recording\n")


def test_a_secret_of_the_environment_reaches_the_tools_only(project: LLMProject) -> None:
    folder = write(
        project,
        opens=definition("opens", 'description: "The key is {{ env.DOOR_TOKEN }}."'),
    )
    plugin = folder / "plugins" / "door.py"
    plugin.write_text(
        dedent("""
        import os
        from llm_pytest.plugin_base import LLMPlugin

        class Door(LLMPlugin):
            name = "door"

            async def look(self, key: str) -> dict:
                assert key == "Key " + os.environ["DOOR_TOKEN"]
                return {"open": True, "key": key}
        """)
    )
    prompts: list[str] = []

    def respond_with_key(request: Any) -> Any:
        prompts.append(str(request.body))
        response = respond(request)
        if isinstance(response, dict):
            response["tool_calls"][0]["args"]["key"] = "Key {{ env.DOOR_TOKEN }}"
            return response
        return response.replace("PASS", "FAIL")

    first, second = "canary-Xq7Lm2Zt9", "canary-Rw4Kp8Vb3"
    with scripted_model(respond_with_key) as variables:
        recorded = project.run(
            *OPENAI, "--llm-proxy=record", variables={**variables, "DOOR_TOKEN": first}
        )
    replayed = project.run(
        *OPENAI, "--llm-proxy=replay", "--junit-xml=report.xml", variables={"DOOR_TOKEN": second}
    )

    assert recorded.verdicts == replayed.verdicts == {"opens": "FAIL"}, replayed.output
    assert 'door_look(key="Key {{ env.DOOR_TOKEN }}")' in replayed.report("the door opens")
    files = [path for path in project.folder.rglob("*") if path.suffix in {".jsonl", ".xml"}]
    texts = [*prompts, recorded.output, replayed.output, *(path.read_text() for path in files)]
    assert len(texts) > 5  # prompts, outputs, two cassettes and a report
    assert not [text for text in texts if first in text or second in text]


def test_texts_of_a_model_cannot_control_the_terminal(project: LLMProject) -> None:
    write(project, stays=FOUR["stays"])

    def respond_with_escapes(request: Any) -> Any:
        response = respond(request)
        return (
            response if isinstance(response, dict) else response.replace("I saw.", "\\u001b[2J\\n")
        )

    with scripted_model(respond_with_escapes) as variables:
        url = variables.pop("LLM_PROXY_UPSTREAM").removeprefix("default=")
        live = {**variables, "OPENAI_BASE_URL": f"{url}/v1"}
        run = project.run(*OPENAI, "-v", variables=live)

    assert "FAIL: \\x1b[2J\\n\n" in run.report("the door stays")
    assert "\x1b[2J" not in run.output


def test_a_token_that_differs_in_each_run_is_that_of_the_run(project: LLMProject) -> None:
    folder = write(project, opens=FOUR["opens"])
    (folder / "plugins" / "door.py").write_text(
        dedent("""
        import secrets
        from llm_pytest.plugin_base import LLMPlugin

        class Door(LLMPlugin):
            name = "door"

            async def login(self) -> dict:
                self.token = secrets.token_urlsafe(32)
                return {"access_token": self.token, "type": "bearer"}

            async def look(self, headers: dict) -> dict:
                assert headers == {"Authorization": "Bearer " + self.token}
                return {"open": True, "seen": headers}
        """)
    )
    bodies: list[str] = []

    def respond_with_token(request: Any) -> Any:
        bodies.append(str(request.body))
        parts = [part for message in request.conversation.messages for part in message.parts]
        results = [json.loads(part.content) for part in parts if isinstance(part, ToolResult)]
        if not results:
            return {"tool_calls": [{"name": "door_login", "args": {"step": "1"}}]}
        if len(results) == 1:
            headers = {"Authorization": f"Bearer {results[0]['access_token']}"}
            arguments = {"headers": headers, "step": "1"}
            return {"tool_calls": [{"name": "door_look", "args": arguments}]}
        return respond(request)

    with scripted_model(respond_with_token) as variables:
        recorded = project.run(*OPENAI, "--llm-proxy=record", "-v", variables=variables)
    replayed = project.run(*OPENAI, "--llm-proxy=replay", "-v")

    assert recorded.verdicts == replayed.verdicts == {"opens": "PASS"}, replayed.output
    assert 'door_look {"headers":{"Authorization":"Bearer {{ secret.1 }}"}' in recorded.output
    assert "{{ secret.1 }}" in bodies[-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_an_interrupted_run_lets_plugins_clean_up(
    project: LLMProject, model: dict[str, str], number: signal.Signals
) -> None:
    folder = write(project, opens=FOUR["opens"])
    (folder / "plugins" / "door.py").write_text(
        dedent("""
        import asyncio
        from pathlib import Path
        from llm_pytest.plugin_base import LLMPlugin

        class Door(LLMPlugin):
            name = "door"

            async def look(self) -> dict:
                Path("looking").touch()
                await asyncio.sleep(60)

            async def cleanup(self) -> None:
                Path("cleaned").touch()
        """)
    )

    plugins = {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "llm_proxy.pytest_plugin,llm_pytest.pytest_plugin",
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--llm", *OPENAI),
        cwd=project.folder,
        env=environment(project.folder, **plugins, **model),
        stdout=asyncio.subprocess.DEVNULL,
    )
    await wait_until((project.folder / "looking").exists)
    process.send_signal(number)
    async with asyncio.timeout(20):
        code = await process.wait()

    assert code in {-number, pytest.ExitCode.INTERRUPTED}
    assert (project.folder / "cleaned").exists()
