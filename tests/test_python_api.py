"""`LLMProxy`: a proxy for a script, a notebook or a test suite."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import httpx
import openai
import pytest

from case_tables import each_row
from cli_process import environment
from llm_proxy import LLMProxy
from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.python_api.proxy import Mode
from llm_proxy.session_documents import SessionStart
from plugin_project import numbering_provider

PAGE: Final = Path(__file__).parents[1] / "docs" / "reference" / "python.md"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each proxy in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """A provider that numbers its responses, in the environment."""
    with numbering_provider() as variables:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield variables


def ask(question: str, **options: Any) -> str:
    """The response to a question, from whatever the environment points to."""
    with openai.OpenAI(max_retries=0) as client:
        completion = client.chat.completions.create(
            model="gpt-4o", messages=[{"role": "user", "content": question}], **options
        )
    return completion.choices[0].message.content or ""


def in_thread(mode: Mode = "replay", **arguments: Any) -> LLMProxy:
    """A proxy in a thread of this process: it starts faster than a child process."""
    return LLMProxy(mode, in_process=True, **arguments)


def test_what_a_context_has_recorded_is_replayed_by_the_next_one(provider: dict[str, str]) -> None:
    with LLMProxy("record"):
        recorded = [ask("one"), ask("one"), ask("two")]
    with LLMProxy() as proxy:
        replayed = [ask("one"), ask("one"), ask("two")]
        proxy.assert_all_played()

    assert recorded == replayed == ["answer 1", "answer 2", "answer 3"]
    assert os.environ["OPENAI_BASE_URL"] == provider["OPENAI_BASE_URL"]


async def test_a_context_may_be_asynchronous() -> None:
    async with LLMProxy("simulate", pace="instant") as proxy:
        async with openai.AsyncOpenAI() as client:
            await client.chat.completions.create(
                model="gpt-4o", messages=[{"role": "user", "content": "Hello"}]
            )

        assert proxy.calls[0].model == "gpt-4o"


def test_calls_hold_the_decoded_request_and_response() -> None:
    with in_thread("simulate", options={"mock": "{reply: Hello}"}) as proxy:
        text = ask("Hi", temperature=0.5)
        (call,) = proxy.calls

        assert text == call.turns[0].text == "Hello"
        assert call.conversation is not None
        assert call.conversation.last_user_text == "Hi"
        assert isinstance(call.json, dict)
        assert call.json["temperature"] == 0.5
        assert (call.method, call.path) == ("POST", "/v1/chat/completions")
        assert (call.provider, call.dialect, call.status) == ("openai", "openai-chat", 200)
        assert b'"Hello"' in call.response_body
        assert "authorization" not in dict(call.document.headers)


EXPECTATIONS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "equal values": ({"user": "Hi", "model": "gpt-4o", "text": "Hello"}, ""),
    "a pattern": ({"user": re.compile("^H")}, ""),
    "a function": ({"temperature": lambda value: value < 1}, ""),
    "another value": ({"user": "Bye", "model": "gpt-4o"}, "user is 'Hi'"),
    "a pattern that is not found": ({"text": re.compile("Bye")}, "no call has text=/Bye/"),
    "an unknown name": ({"usr": "Hi"}, "unknown values usr; known: provider, dialect, model"),
}


def test_an_expected_call_is_found_or_all_calls_are_shown() -> None:
    with in_thread("simulate", options={"mock": "{reply: Hello}"}) as proxy:
        ask("Hi", temperature=0.5)
        call = proxy.calls[0]

        @each_row("expected, message", EXPECTATIONS.values(), ids=EXPECTATIONS)
        def check(expected: dict[str, Any], message: str) -> None:
            if not message:
                assert proxy.assert_called_with(**expected) == call
                return
            with pytest.raises((AssertionError, TypeError), match=re.escape(message)):
                proxy.assert_called_with(**expected)

        check()


def test_each_session_has_its_own_takes_calls_and_faults(provider: dict[str, str]) -> None:
    with in_thread("record") as proxy:
        for name in ("first", "second"):
            with proxy.session(name):
                ask("question")
    with in_thread("replay") as proxy:
        with proxy.session("second", faults=["rate-limit,first=1"]) as session:
            with pytest.raises(openai.RateLimitError):
                ask("question")
            assert ask("question") == "answer 2"
            assert [fault.fault for fault in session.faults] == ["rate-limit"]
        with proxy.session("first") as session:
            assert ask("question") == "answer 1"
            assert len(session.calls) == 1
            assert httpx.get(f"{session.url}/v1/models", timeout=20).status_code == 424
            assert len(session.misses) == 1


def test_a_session_changes_while_it_runs(tmp_path: Path) -> None:
    (tmp_path / "scenarios").mkdir()
    turn = "{turn: 1, response: {kind: text, assistant_text: Scripted.}}"
    (tmp_path / "scenarios" / "hello.yaml").write_text(
        f"id: hello\ndescription: A greeting.\nturns: [{turn}]\n"
    )

    with in_thread("replay") as proxy:
        proxy.scenario("hello")
        assert ask("anything") == "Scripted."
        proxy.inject_faults("overloaded,first=1")
        with pytest.raises(openai.InternalServerError):
            ask("anything")
        proxy.inject_faults()
        assert ask("anything") == "Scripted."
        proxy.reset()
        for change in (
            lambda: proxy.scenario("hallo"),
            lambda: proxy.inject_faults("rset"),
            lambda: proxy.set_pace("fast"),
            lambda: proxy.base_url("opnai"),
        ):
            with pytest.raises(LlmProxyError):
                change()


def test_a_call_in_progress_is_decoded_as_far_as_it_has_come() -> None:
    with in_thread("simulate", pace="gap=100s") as proxy:
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
        with httpx.stream("POST", f"{proxy.base_url('openai')}/chat/completions", json=body):
            call = proxy.assert_called_with(provider="openai", model="m", user="Hi")

            assert call.dialect == "openai-chat"
            assert proxy.report.requests == 1


def test_sessions_may_be_nested(provider: dict[str, str]) -> None:
    with in_thread("record") as proxy, proxy.session("outer", faults=["latency,by=1ms"]) as outer:
        with proxy.session("inner") as inner:
            ask("inner")
        ask("outer")
        with pytest.raises(LlmProxyError, match="the session outer is already running"):
            with proxy.session("outer"):
                pass

        assert [len(session.calls) for session in (proxy, outer)] == [0, 1]
        assert [fault.fault for fault in outer.faults] == ["latency"]
    with pytest.raises(LlmProxyError, match="not running"):
        inner.reset()


def test_recordings_before_a_scenario_are_kept(provider: dict[str, str], tmp_path: Path) -> None:
    turn = "{turn: 1, response: {kind: text, assistant_text: Scripted.}}"
    (tmp_path / "hello.yaml").write_text(f"id: hello\ndescription: A test.\nturns: [{turn}]\n")
    for _ in range(2):
        with in_thread("record", scenarios="hello.yaml") as proxy:
            ask("question")
            with pytest.raises(LlmProxyError, match="unknown scenario 'helo'; did you mean hello"):
                proxy.scenario("helo")
            proxy.scenario("hello")
            assert ask("question") == "Scripted."
    with in_thread():
        assert ask("question") == "answer 2"


def test_a_session_ends_while_other_clients_send_requests() -> None:
    with in_thread("simulate", pace="instant") as proxy:
        url, is_over = f"{proxy.url}/@other/v1/chat/completions", threading.Event()

        def send() -> None:
            body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
            with httpx.Client() as client:
                while not is_over.is_set():
                    client.post(url, json=body, timeout=20)

        threads = [threading.Thread(target=send) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for number in range(30):
                with proxy.session(f"session-{number}") as session:
                    assert session.report.session == session.name
        finally:
            is_over.set()
            for thread in threads:
                thread.join(20)


def test_the_proxy_stops_although_a_forked_process_has_its_pipe() -> None:
    with LLMProxy("simulate"):
        child = os.fork()
        if child == 0:
            signal.pause()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_proxy_in_a_thread_starts_again() -> None:
    proxy = LLMProxy("simulate", in_process=True, options={"mock": "{reply: Hello}"})
    for _ in range(2):
        with proxy:
            assert ask("Hi") == "Hello"


def test_a_function_of_this_process_replies_in_a_thread() -> None:
    def reply(context: Any) -> str:
        return f"{context.conversation.last_user_text} from {os.getpid()}"

    with LLMProxy("simulate", respond=reply, in_process=True):
        assert ask("Hello") == f"Hello from {os.getpid()}"
    with pytest.raises(UsageError, match="in_process=True"):
        LLMProxy("simulate", respond=reply)


def test_strict_contexts_fail_after_a_miss_that_was_caught() -> None:
    def run(*errors: Exception) -> None:
        with in_thread("replay", strict=True):
            with pytest.raises(openai.APIStatusError):
                ask("unknown")
            for error in errors:
                raise error

    with pytest.raises(AssertionError, match="no cassette matches POST /v1/chat/completions"):
        run()
    with pytest.raises(ZeroDivisionError):  # the exception of the context prevails
        run(ZeroDivisionError())


def test_a_context_that_raises_keeps_the_older_recordings(provider: dict[str, str]) -> None:
    def record(*errors: Exception) -> None:
        with in_thread("record"):
            ask("question")
            for error in errors:
                raise error

    record()
    with pytest.raises(ZeroDivisionError):
        record(ZeroDivisionError())
    with in_thread("replay"):
        assert ask("question") == "answer 1"


START_ERRORS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "an invalid pace": ({"pace": "fast"}, "--pace: "),
    "a folder that does not exist": ({"folder": "none"}, "cannot start llm-proxy in none: No such"),
    "an unknown mode": ({"mode": "repaly"}, "unknown mode 'repaly'; did you mean 'replay'?"),
    "an unknown option": ({"options": {"pase": ""}}, "unknown option 'pase'; did you mean 'pace'?"),
}


@each_row("arguments, message", START_ERRORS.values(), ids=START_ERRORS)
def test_a_proxy_that_cannot_start_raises_an_error(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(LlmProxyError, match=re.escape(message)):
        LLMProxy(**arguments).start()


TEST_SESSION: Final = SessionStart(options=(("normalise", "llm-pytest"),))
"""The session of a test that a model runs."""
LOOSER_SETTINGS: Final[dict[str, tuple[str, dict[str, str], str]]] = {
    "a rule of the settings file": (
        'normalise = ["ignore=$.messages"]', {},
        "llm-proxy.toml: normalise = ignore=$.messages is not allowed",
    ),
    "a rule of the environment": (
        "", {"LLM_PROXY_NORMALISE": "uuids timestamps"},
        "LLM_PROXY_NORMALISE: normalise = timestamps is not allowed",
    ),
    "approximate matching": (
        'match = "nearest:0.9"', {}, "llm-proxy.toml: match = nearest:0.9 is not allowed",
    ),
    "responses of scenarios": (
        'on-miss = "scenario"', {}, "llm-proxy.toml: on-miss = scenario is not allowed",
    ),
    "incomplete recordings": (
        "allow-partial = true", {}, "llm-proxy.toml: allow-partial = true is not allowed",
    ),
}  # fmt: skip


@each_row("config, environ, message", LOOSER_SETTINGS.values(), ids=LOOSER_SETTINGS)
def test_looser_settings_are_refused_for_a_test_that_a_model_runs(
    tmp_path: Path, config: str, environ: dict[str, str], message: str
) -> None:
    (tmp_path / "llm-proxy.toml").write_text(config)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environ.items():
            patch.setenv(name, value)
        with (
            in_thread() as proxy,
            pytest.raises(LlmProxyError, match=re.escape(message)),
        ):
            proxy.start_session("test", TEST_SESSION)


@each_row(
    "place, options, session_options",
    [
        ("the options of this run", {"normalise": "timestamps"}, ()),
        ("the session of this test", {}, (("normalise", "timestamps"),)),
    ],
)
def test_the_place_of_a_looser_rule_is_named(
    place: str, options: dict[str, str], session_options: tuple[tuple[str, str], ...]
) -> None:
    start = SessionStart(options=(*TEST_SESSION.options, *session_options))

    with in_thread(options=options) as proxy, pytest.raises(LlmProxyError, match=f"^{place}: "):
        proxy.start_session("test", start)


def test_other_settings_are_allowed_for_a_test_that_a_model_runs(tmp_path: Path) -> None:
    config = (
        'normalise = ["claude-code", "uuids", "ignore=$.metadata"]\nredact = ["email"]\n'
        'after-last = "cycle"\ncollapse-retries = true'
    )
    (tmp_path / "llm-proxy.toml").write_text(config)

    with in_thread() as proxy:
        proxy.start_session("test", TEST_SESSION)
        report = proxy.end_session("test", keep_recordings=False)

    assert report.requests == 0


def test_the_child_process_ends_with_its_parent(tmp_path: Path) -> None:
    program = """
        import os, sys
        from llm_proxy import LLMProxy
        proxy = LLMProxy("simulate").start()
        print(proxy.url, flush=True)
        os.kill(os.getpid(), 9)
    """
    ended = subprocess.run(
        [sys.executable, "-c", dedent(program)],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == -signal.SIGKILL  # its output ends when the child has ended too
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{ended.stdout.strip()}/_proxy/health", timeout=20)


def test_the_end_of_the_child_process_is_an_error_that_quotes_its_log(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w+b") as log:
        proxy = LLMProxy("simulate", log=log).start()
        ask("Hello")
        connection: Any = proxy._connection
        connection._process.kill()
        connection._process.wait(20)
        with pytest.raises(LlmProxyError, match="has ended unexpectedly; its log ends with"):
            proxy.reset()
        with pytest.raises(LlmProxyError, match="has ended unexpectedly"):
            proxy.stop()


def test_an_interrupted_request_does_not_mix_up_later_ones() -> None:
    with LLMProxy("simulate") as proxy:
        connection: Any = proxy._connection
        connection._write_line(
            {"id": 0, "method": "GET", "path": "/_proxy/health", "body": {}}
        )  # its response is never read

        assert proxy.report.requests == 0
        assert proxy.late_requests == ()


def test_importing_the_package_loads_no_other_module(tmp_path: Path) -> None:
    program = "import sys, llm_proxy; print([name for name in sys.modules if 'llm_proxy' in name])"
    loaded = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert loaded.stdout.strip() == "['llm_proxy.version', 'llm_proxy']"


def examples() -> list[str]:
    """The Python blocks of the reference page."""
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


async def test_the_examples_of_the_reference_run(tmp_path: Path, provider: dict[str, str]) -> None:
    for number, text in enumerate(examples(), 1):
        program = tmp_path / f"example_{number}.py"
        program.write_text(f"{text}\nif 'unittest' in globals():\n    unittest.main()\n")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            program.name,
            cwd=tmp_path,
            env=environment(tmp_path, **provider),
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            _, errors = await process.communicate()
        assert process.returncode == 0, f"{text}\n{errors.decode()}"
