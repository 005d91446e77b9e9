"""The pytest plugin: each test is a session, and nothing is swallowed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from case_tables import each_row
from plugin_project import APP, PluginProject, PytestRun, numbering_provider

AUTOLOAD: Final = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "", "PYTEST_PLUGINS": ""}
"""The variables with which pytest loads all installed plugins, as it does for a user."""
SESSION_FOLDER: Final = re.compile(r"@[A-Za-z0-9][A-Za-z0-9._-]{0,79}-[0-9a-f]{8}")


@pytest.fixture
def project(tmp_path: Path) -> PluginProject:
    project = PluginProject(tmp_path)
    project.write(app=APP)
    project.write_ini()
    return project


def record(project: PluginProject, *arguments: str, plugins: Sequence[str] = ()) -> PytestRun:
    """Record the project's tests from a provider that numbers its responses."""
    with numbering_provider() as variables:
        return project.run("--llm-proxy=record", *arguments, plugins=plugins, variables=variables)


KINDS_OF_TESTS: Final = """
    import asyncio
    import unittest
    import freezegun
    import pytest
    import time_machine
    from app import KEY, ask

    @pytest.fixture(scope="module")
    def shared():
        return ask("for all tests of the module")

    def test_function(llm_proxy):
        assert ask("function")
        assert [call.conversation.last_user_text for call in llm_proxy.calls] == ["function"]

    def test_dummy_key():
        assert KEY
        assert ask("key")

    class TestClass:
        @pytest.mark.parametrize("text", ["a/b", "x" * 300, "ü"])
        def test_parameter(self, text, llm_proxy, shared):
            assert ask(text)
            assert [call.json["messages"][0]["content"] for call in llm_proxy.calls] == [text]

    class TestCase(unittest.TestCase):
        def test_unittest(self):
            self.assertTrue(ask("unittest"))

    async def test_coroutine(llm_proxy):
        assert await asyncio.to_thread(ask, "coroutine")
        llm_proxy.assert_called_with(user="coroutine", model="gpt-4o")

    @freezegun.freeze_time("2001-01-01")
    @pytest.mark.llm_proxy(pace="ttft=20ms,gap=5ms")
    def test_freezegun():
        assert ask("frozen")

    @time_machine.travel("2001-01-01", tick=False)
    @pytest.mark.llm_proxy(pace="ttft=20ms,gap=5ms")
    def test_time_machine():
        assert ask("travelled")

    @pytest.mark.llm_proxy(mode="auto", faults="latency,by=1ms")
    def test_marker(llm_proxy):
        assert ask("marker")
        assert [fault.fault for fault in llm_proxy.faults] == ["latency"]
"""


def test_tests_of_all_kinds_are_recorded_once_and_replayed_in_any_order(
    project: PluginProject,
) -> None:
    project.write(test_kinds=KINDS_OF_TESTS)

    project.write_ini("asyncio_mode = auto", "asyncio_default_fixture_loop_scope = function")
    plugins = ("pytest_asyncio.plugin",)

    recording = record(project, plugins=plugins)
    replays = [project.run("--llm-proxy=replay", plugins=(*plugins, "pytest_randomly"))]
    replays += [project.run("--llm-proxy=replay", "-n", "2", plugins=plugins)]

    for run in (recording, *replays):
        assert set(run.outcomes.values()) == {"PASSED"}, run.output
    assert recording.summary == (
        "llm-proxy: played 0 from 0 cassettes, recorded 11, missed 0, 0 cassettes unused"
    )
    for replay in replays:  # each worker of xdist sets the fixture of the module up
        assert re.fullmatch(
            "llm-proxy: played 1[12] from 11 cassettes, recorded 0, missed 0, 0 cassettes unused",
            replay.summary,
        )
    folders = project.cassettes()
    assert len(set(folders)) == 11  # with that of the module's fixture
    assert all(map(SESSION_FOLDER.fullmatch, folders)), folders


def test_tests_with_equal_names_in_two_files_have_sessions_of_their_own(
    project: PluginProject,
) -> None:
    test = """
        from app import ask

        def test_same():
            assert ask("the same question") == "answer {}"
    """
    project.write(test_a=test.format(1), test_b=test.format(2))

    recording = record(project)
    replay = project.run("--llm-proxy=replay", "test_b.py", "test_a.py")

    assert recording.exit_code == replay.exit_code == 0, replay.output
    assert [folder.rpartition("-")[0] for folder in project.cassettes()] == [
        "@test_a.py-test_same",
        "@test_b.py-test_same",
    ]


FAILING_TESTS: Final = """
    import threading
    import pytest
    from app import ask

    @pytest.fixture
    def broken():
        ask("in a fixture")

    def test_miss():
        ask("not recorded")

    def test_swallowed_miss():
        try:
            ask("not recorded")
        except Exception:
            pass

    def test_skipped_after_a_miss():
        try:
            ask("not recorded")
        except Exception:
            pytest.skip("no provider")

    def test_miss_in_setup(broken):
        pass

    @pytest.mark.llm_proxy
    def test_never_reached():
        pass

    def test_without_requests():
        pass

    @pytest.mark.llm_proxy(scenario="unknown")
    def test_unknown_scenario():
        ask("Hello")

    @pytest.mark.llm_proxy(modes="replay")
    def test_wrong_argument():
        ask("Hello")
"""


def test_misses_and_tests_that_bypass_the_proxy_fail_with_an_explanation(
    project: PluginProject,
) -> None:
    project.write(test_failing=FAILING_TESTS)
    project.write_ini("llm_proxy = replay")

    run = project.run()

    assert run.outcomes == {
        "test_miss": "FAILED",
        "test_swallowed_miss": "FAILED",
        "test_skipped_after_a_miss": "FAILED",
        "test_miss_in_setup": "ERROR",
        "test_never_reached": "FAILED",
        "test_without_requests": "PASSED",
        "test_unknown_scenario": "ERROR",
        "test_wrong_argument": "ERROR",
    }, run.output
    for text in (
        "no cassette matches POST /v1/chat/completions (gpt-4o)",
        "to record the request, run pytest --llm-proxy=auto",
        "no request reached llm-proxy at http://127.0.0.1:",
        "unknown scenario 'unknown'; to list all IDs, run llm-proxy scenario ls",
        "marker llm_proxy: unknown argument modes; known: mode, scenario,",
    ):
        assert text in run.output
    assert run.summary.startswith("llm-proxy: played 0 from 0 cassettes, recorded 0, missed 4")


LATE_TESTS: Final = """
    import threading
    import pytest
    from app import ask

    begin, done, seen = threading.Event(), threading.Event(), []

    def ask_late():
        begin.wait(20)
        try:
            ask("first")
        except Exception as error:
            seen.append(error.code)
        done.set()

    def test_first():
        ask("first")
        threading.Thread(target=ask_late).start()

    def test_second():
        ask("second")
        begin.set()
        assert done.wait(20)
        print("seen", seen)

    def test_third():
        ask("third")
"""


def test_a_late_request_fails_the_run_and_not_the_next_test(project: PluginProject) -> None:
    project.write(test_late=LATE_TESTS)
    record(project)
    for path in (project.folder / "cassettes").glob("@*-test_second-*/*/*/*.jsonl"):
        if '"first"' in path.read_text():  # while recording, it cannot be told apart
            path.unlink()

    run = project.run("--llm-proxy=replay", "-n", "1")

    assert set(run.outcomes.values()) == {"PASSED"}, run.output
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED
    assert "seen [424]" in run.output
    assert "late: POST /v1/chat/completions matches no cassette of " in run.output


def test_a_request_between_two_tests_is_refused(project: PluginProject) -> None:
    project.write(
        conftest="""
            def pytest_runtest_logfinish(nodeid):
                from app import ask
                try:
                    ask("between")
                except Exception as error:
                    print(error.code)
        """,
        test_one="def test_one(): pass",
    )

    run = project.run("--llm-proxy=simulate", "-s")

    assert run.outcomes == {"test_one": "PASSED"}
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED
    assert "424" in run.output
    assert "late: POST /v1/chat/completions arrived after the end of" in run.output


def test_recordings_of_a_failed_test_replace_older_ones_only_if_that_is_requested(
    project: PluginProject,
) -> None:
    test = """
        from app import ask

        def test_it():
            text = ask("question")
            print("got", text)
            assert text {}
    """
    project.write(test_it=test.format("== 'answer 1'"))
    record(project)
    project.write(test_it=test.format("== 'something else'"))
    with numbering_provider() as variables:
        failing = project.run(
            "--llm-proxy=record", variables=variables
        )  # answer 1 of this provider
        kept = project.run("--llm-proxy=replay")
        project.run(
            "--llm-proxy=record", "--llm-proxy-keep-failed", variables=variables
        )  # answer 2
        replaced = project.run("--llm-proxy=replay")

    assert failing.outcomes == {"test_it": "FAILED"}
    assert "got answer 1" in kept.output
    assert "got answer 2" in replaced.output
    assert len(project.cassettes()) == 1


def test_a_recorded_test_replaces_all_cassettes_of_its_session(project: PluginProject) -> None:
    test = """
        from app import ask

        def test_it():
            for question in {}:
                ask(question)
            assert "{}"
    """
    project.write(test_it=test.format(("one", "two"), "passes"))
    record(project)
    project.write(test_it=test.format(("one", "three"), ""))
    record(project)
    after_failure = len(project.cassettes())
    project.write(test_it=test.format(("one", "three"), "passes"))
    recording = record(project)

    replay = project.run("--llm-proxy=replay")

    assert after_failure == 3
    assert "deleted, because the test no longer sends the request" in recording.output
    assert replay.summary == (
        "llm-proxy: played 2 from 2 cassettes, recorded 0, missed 0, 0 cassettes unused"
    )


def test_a_test_that_ends_early_costs_no_cassette(project: PluginProject) -> None:
    test = """
        import pytest
        from app import ask

        def test_it():
            for question in ("one", "two"):
                try:
                    ask(question)
                except Exception:
                    break
                {}
    """
    project.write(test_it=test.format("pass"))
    record(project)

    project.write(test_it=test.format("pytest.skip('early')"))
    record(project)
    project.write(test_it=test.format("pass").replace('"one", "two"', '"error", "two"'))
    record(project)

    assert len(project.cassettes()) == 3


def test_the_work_for_a_test_does_not_grow_with_the_number_of_shared_fixtures(
    project: PluginProject,
) -> None:
    project.write(
        conftest="""
            import pytest

            @pytest.fixture(scope="module", params=range(5))
            def shared(request):
                yield request.param
        """,
        **{f"test_{number}": "def test_it(shared): pass" for number in range(6)},
        test_last="""
            def test_requests(llm_proxy, shared):
                first = next(llm_proxy._proxy._connection._request_ids)
                assert first < 35 * 20  # tests, requests for each
        """,
    )

    run = project.run("--llm-proxy=simulate")

    assert set(run.outcomes.values()) == {"PASSED"}, run.output


def test_faults_of_a_marker_survive_the_setup_of_shared_fixtures(project: PluginProject) -> None:
    project.write(
        test_fault="""
            import pytest
            import urllib.error
            from app import ask

            @pytest.fixture(scope="session")
            def shared():
                return ask("not faulted")

            @pytest.mark.llm_proxy(faults="status,code=418,first=1")
            def test_fault(llm_proxy, shared):
                with pytest.raises(urllib.error.HTTPError, match="418"):
                    ask("faulted")
                ask("not faulted any more")
                assert [call.status for call in llm_proxy.calls] == [418, 200]

            def test_without_fault(llm_proxy):
                ask("not faulted")
                llm_proxy.inject_faults("status,code=418")
                with pytest.raises(urllib.error.HTTPError, match="418"):
                    ask("faulted")
        """
    )

    run = project.run("--llm-proxy=simulate")

    assert set(run.outcomes.values()) == {"PASSED"}, run.output


def test_a_failure_in_teardown_keeps_the_older_recordings(project: PluginProject) -> None:
    test = """
        import pytest
        from app import ask

        @pytest.fixture
        def resource():
            yield
            assert "{}"

        def test_it(resource):
            print("got", ask("question"))
    """
    with numbering_provider() as variables:
        for condition in ("passes", ""):
            project.write(test_it=test.format(condition))
            project.run("--llm-proxy=record", variables=variables)
    project.write(test_it=test.format("passes"))

    assert "got answer 1" in project.run("--llm-proxy=replay").output


def test_requests_of_a_shared_fixture_are_replayed_with_any_test(project: PluginProject) -> None:
    project.write(
        test_shared="""
            import pytest
            from app import ask

            @pytest.fixture(scope="module")
            def agent():
                ask("hello")
                yield ask
                ask("goodbye")

            def test_one(agent):
                agent("one")

            def test_two(agent):
                agent("two")
        """
    )
    record(project)

    replays = [project.run("--llm-proxy=replay", "-k", name) for name in ("one", "two")]

    for replay in replays:
        assert set(replay.outcomes.values()) == {"PASSED"}, replay.output
        assert "played 3 from 3 cassettes" in replay.summary


def test_each_module_has_a_session_for_its_instance_of_a_fixture(project: PluginProject) -> None:
    project.write(
        conftest="""
            import pytest

            @pytest.fixture(scope="module")
            def greeting():
                from app import ask
                return ask("hello")
        """,
        test_a="def test_a(greeting): assert greeting == 'answer 1'",
        test_b="def test_b(greeting): assert greeting == 'answer 2'",
    )
    record(project)

    replay = project.run("--llm-proxy=replay", "test_b.py")

    assert replay.outcomes == {"test_b": "PASSED"}, replay.output


def test_a_response_is_recorded_to_its_end_although_the_test_does_not_read_it(
    project: PluginProject,
) -> None:
    project.write(
        test_head="""
            import http.client
            import json
            import urllib.parse
            from app import URL

            def test_head():
                body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
                url = urllib.parse.urlsplit(URL)
                connection = http.client.HTTPConnection(url.hostname, url.port, timeout=20)
                headers = {"Content-Type": "application/json"}
                connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
                assert connection.getresponse().status == 200
                connection.close()
        """
    )

    recording, replay = record(project), project.run("--llm-proxy=replay")

    for run in (recording, replay):
        assert run.outcomes == {"test_head": "PASSED"}, run.output


def test_an_incomplete_recording_fails_its_test(project: PluginProject) -> None:
    project.write(
        test_cut="""
            from app import ask

            def test_cut():
                try:
                    ask("cut")
                except Exception:
                    pass
        """
    )

    recording = record(project)

    assert recording.outcomes == {"test_cut": "ERROR"}, recording.output
    assert "is incomplete, so the test cannot be replayed" in recording.output


def test_a_run_in_which_no_request_arrived_is_reported(project: PluginProject) -> None:
    project.write(test_one="def test_one(): pass")

    run = project.run("--llm-proxy=simulate")

    assert run.exit_code == 0
    assert "llm-proxy: no request reached llm-proxy; check that the application" in run.output


def test_a_forked_process_leaves_the_session_to_its_parent(project: PluginProject) -> None:
    project.write(
        test_fork="""
            import os
            import sys
            from app import ask

            def test_fork():
                child = os.fork()
                if child == 0:
                    sys.exit(0)
                os.waitpid(child, 0)
                assert ask("after the fork")
        """
    )

    run = project.run("--llm-proxy=simulate")

    assert "1 passed" in run.output
    assert "simulated 1" in run.output


def test_a_miss_outside_of_tests_fails_the_run(project: PluginProject) -> None:
    project.write(
        conftest="""
            from app import ask
            try:
                ask("at import")
            except Exception:
                pass
        """,
        test_one="def test_one(): pass",
    )

    run = project.run("--llm-proxy=replay")

    assert run.outcomes == {"test_one": "PASSED"}
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED
    assert "missed 1" in run.summary
    assert "outside of tests: no cassette matches POST /v1/chat/completions" in run.output


def test_a_conftest_file_may_load_the_plugin(project: PluginProject) -> None:
    project.write(
        conftest="pytest_plugins = ['llm_proxy.pytest_plugin']",
        test_one="""
            def test_one(llm_proxy):
                from app import ask
                assert ask("Hello")
        """,
    )

    run = project.run(variables={"PYTEST_PLUGINS": "", "LLM_PROXY_MODE": "simulate"})

    assert run.outcomes == {"test_one": "PASSED"}, run.output


def test_the_end_of_the_proxy_is_reported_with_the_results_of_the_tests(
    project: PluginProject,
) -> None:
    project.write(
        test_killed="""
            import os
            import signal

            def test_good():
                pass

            def test_kill(llm_proxy):
                os.kill(llm_proxy._proxy._connection._process.pid, signal.SIGKILL)
        """
    )

    run = project.run("--llm-proxy=simulate")

    assert run.outcomes == {"test_good": "PASSED", "test_kill": "ERROR"}, run.output
    assert "the llm-proxy process has ended unexpectedly" in run.output
    assert "INTERNALERROR" not in run.output


def test_the_plugin_leaves_no_trace_where_no_test_uses_it(project: PluginProject) -> None:
    project.write(
        test_trace="""
            import os, sys

            def test_trace(pytestconfig):
                ours = [name for name in sys.modules if name.partition(".")[0] == "llm_proxy"]
                assert sorted(ours) == ["llm_proxy", "llm_proxy.pytest_plugin", "llm_proxy.version"]
                assert not [name for name in os.environ if name.startswith(("LLM_", "OPENAI"))]
        """
    )

    plain_run = project.run(variables=AUTOLOAD)
    run_with_off = project.run("--llm-proxy=off", variables=AUTOLOAD)

    for run in (plain_run, run_with_off):
        assert run.outcomes == {"test_trace": "PASSED"}, run.output
        assert not run.summary


def test_with_the_fixture_or_the_marker_the_proxy_starts_at_its_first_use(
    project: PluginProject,
) -> None:
    project.write(
        test_lazy="""
            import os
            import pytest

            def test_plain():
                assert "OPENAI_BASE_URL" not in os.environ

            @pytest.mark.llm_proxy(mode="simulate")
            def test_marker():
                from app import ask
                assert ask("Hello")

            def test_dynamic_fixture(request):
                assert "OPENAI_BASE_URL" not in os.environ
                session = request.getfixturevalue("llm_proxy")
                assert session.base_url("openai").endswith(f"/@{session.name}/v1")
                assert os.environ["OPENAI_BASE_URL"]

            def test_plain_again():
                assert "OPENAI_BASE_URL" not in os.environ
        """
    )

    run = project.run("-p", "no:randomly")
    run_with_off = project.run("--llm-proxy=off", "-k", "dynamic")

    assert set(run.outcomes.values()) == {"PASSED"}, run.output
    assert "the test needs llm-proxy, and --llm-proxy=off is set" in run_with_off.output


MODES: Final = {
    "a run in replay connects to no provider": ("replay", "simulated 1, recorded 0, missed 3"),
    "a run in record records auto, too": ("record", "simulated 1, recorded 2, missed 1"),
}


@each_row("run_mode, counts", MODES.values(), ids=MODES)
def test_the_mode_of_the_run_limits_those_of_its_tests(
    project: PluginProject, run_mode: str, counts: str
) -> None:
    project.write(
        test_mode="""
            import pytest
            from app import ask

            @pytest.mark.parametrize("name", [
                pytest.param(mode, marks=pytest.mark.llm_proxy(mode=mode))
                for mode in ("record", "auto", "replay", "simulate")
            ])
            def test_mode(name):
                ask(name)
        """
    )
    with numbering_provider() as variables:
        run = project.run(variables=variables | {"LLM_PROXY_MODE": run_mode})

    assert counts in run.summary, run.output


START_ERRORS: Final = {
    "an unknown mode": ((), {"LLM_PROXY_MODE": "repaly"}, "unknown mode 'repaly'"),
    "pytest under the wrapper": (
        ("--llm-proxy=replay",),
        {"LLM_PROXY_URL": "http://127.0.0.1:4777"},
        "run pytest --llm-proxy=record instead of llm-proxy record -- pytest",
    ),
    "an invalid setting": (
        ("--llm-proxy=replay",),
        {"LLM_PROXY_PACE": "fast"},
        "llm-proxy: LLM_PROXY_PACE: ",
    ),
    "a folder that is a file": (
        ("--llm-proxy=record",),
        {"LLM_PROXY_CASSETTES": "app.py"},
        "cannot write to --cassettes app.py",
    ),
}


@each_row("arguments, variables, message", START_ERRORS.values(), ids=START_ERRORS)
def test_a_proxy_that_cannot_start_is_a_usage_error(
    project: PluginProject, arguments: tuple[str, ...], variables: dict[str, str], message: str
) -> None:
    project.write(test_one="def test_one(): pass")

    run = project.run(*arguments, variables=variables)

    assert run.exit_code == pytest.ExitCode.USAGE_ERROR, run.output
    assert message in run.output
    assert "Traceback" not in run.output


def test_the_proxy_works_beside_plugins_that_block_or_record_the_network(
    project: PluginProject,
) -> None:
    project.write(
        test_blocked="""
            import pytest
            from app import ask

            @pytest.mark.llm_proxy
            def test_one(llm_proxy):
                try:
                    ask("Hello")
                except Exception as error:
                    print(error)
        """
    )
    project.write_ini("llm_proxy = simulate")
    socket, recording = ("pytest_socket",), ("pytest_recording.plugin",)
    blocked = [project.run("--disable-socket", plugins=socket)]
    blocked += [project.run("--block-network", plugins=recording)]
    allowed = [project.run("--disable-socket", "--allow-hosts=127.0.0.1", plugins=socket)]
    allowed += [project.run("--block-network", "--allowed-hosts=127.0.0.1", plugins=recording)]

    assert [run.outcomes for run in blocked] == [{"test_one": "FAILED"}] * 2, blocked
    assert "add --allow-hosts=127.0.0.1" in blocked[0].output
    assert "add --allowed-hosts=127.0.0.1" in blocked[1].output
    assert [run.outcomes for run in allowed] == [{"test_one": "PASSED"}] * 2, allowed


def test_a_test_of_pytest_recording_runs_beside_tests_of_the_proxy(project: PluginProject) -> None:
    project.write(
        test_both="""
            import os
            import urllib.request
            import pytest
            from app import ask

            @pytest.mark.vcr
            def test_vcr():
                url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
                with urllib.request.urlopen(url, b"{}", timeout=20) as response:
                    assert b"answer 1" in response.read()

            def test_proxy():
                assert "answer" not in ask("responded by llm-proxy")

            @pytest.mark.vcr
            @pytest.mark.llm_proxy
            def test_with_both_markers():
                assert ask("Hello")
        """
    )
    project.write_ini("llm_proxy = simulate")
    recording = ("pytest_recording.plugin",)
    with numbering_provider() as variables:
        project.run("--record-mode=once", plugins=recording, variables=variables)
    run = project.run("--record-mode=none", plugins=recording, variables=variables)

    assert run.outcomes == {
        "test_vcr": "PASSED",
        "test_proxy": "PASSED",
        "test_with_both_markers": "FAILED",
    }, run.output


def test_responses_in_progress_are_cut_off_at_the_end_of_their_test(project: PluginProject) -> None:
    project.write(
        test_open="""
            import http.client
            import json
            import pytest
            import urllib.request
            from app import URL

            OPEN = []

            @pytest.mark.llm_proxy(pace="gap=100s")
            def test_open(llm_proxy):
                body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
                data = json.dumps(body | {"stream": True}).encode()
                headers = {"Content-Type": "application/json"}
                request = urllib.request.Request(f"{URL}/chat/completions", data, headers)
                OPEN.append(urllib.request.urlopen(request, timeout=20))
                assert OPEN[0].status == 200

            def test_next(llm_proxy):
                assert not llm_proxy.calls
                with pytest.raises((ConnectionError, http.client.IncompleteRead)):
                    while OPEN[0].read1():
                        pass
        """
    )

    run = project.run("--llm-proxy=simulate")

    assert set(run.outcomes.values()) == {"PASSED"}, run.output
    assert "llm-proxy: 1 response cut off at the end of a test" in run.output


def test_two_workers_record_the_same_request_of_a_module(project: PluginProject) -> None:
    project.write(
        conftest="from app import ask\nGREETING = ask('at import')",
        test_two="def test_one(): pass\ndef test_two(): pass",
    )

    recording = record(project, "-n", "2")
    replay = project.run("--llm-proxy=replay", "-n", "2")

    assert recording.exit_code == replay.exit_code == 0, recording.output + replay.output
