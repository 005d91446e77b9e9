"""`llm-proxy demo`: its report is correct, and it leaves no files behind."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import signal
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from case_tables import each_row
from cli_process import RunningCommand, run_command, running_command
from llm_proxy import framing
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.cli import demo as demo_command
from llm_proxy.cli.demo import demo
from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.exchange import Read
from llm_proxy.shell import demo as demo_module
from llm_proxy.shell.demo import DemoResult
from llm_proxy.shell.library.library import Library
from stub_upstream import Connection, Script, fixed_length, upstream

FIGURES_ROW = re.compile(
    r"^(recorded|replayed) +(44 reads) from [\d.]+ to [\d.]+ ms, (.*)$", re.MULTILINE
)


@pytest.fixture
def fast_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses of the demo provider."""
    script = demo_module.load_script()
    reads = tuple(dataclasses.replace(read, at_ms=read.at_ms / 40) for read in script.reads)
    fast_script = dataclasses.replace(script, reads=reads)
    monkeypatch.setattr(demo_module, "load_script", lambda: fast_script)


def paths_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def temporary_folder(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """Create a folder for temporary files; return it and the environment that names it."""
    folder = tmp_path / "temporary"
    folder.mkdir(exist_ok=True)
    return folder, {"TMPDIR": str(folder)}


async def test_the_demo_shows_two_equal_timelines_and_leaves_nothing(tmp_path: Path) -> None:
    _, environ = temporary_folder(tmp_path)
    result = await run_command("demo", folder=tmp_path, env=environ)

    assert (result.exit_code, result.stderr) == (0, "")
    body = demo_module.load_script().response_body
    figures = f"{len(body):,} bytes, sha256 {hashlib.sha256(body).hexdigest()[:12]}"
    assert FIGURES_ROW.findall(result.stdout) == [
        ("recorded", "44 reads", figures),
        ("replayed", "44 reads", figures),
    ]
    assert re.search(r"127\.0\.0\.1:\d+ refuses connections", result.stdout)
    assert re.search(
        r"difference in read times: largest [\d.]+ ms, median [\d.]+ ms", result.stdout
    )
    assert re.search(r"^equal ", result.stdout, re.MULTILINE)
    assert "--keep DIR" in result.stdout
    assert result.stdout.count("слово за словом") == 2
    assert "\x1b" not in result.stdout
    assert not re.search(r" $", result.stdout, re.MULTILINE)
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert paths_below(tmp_path) == ["temporary"]


@each_row(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
async def test_a_demo_that_is_stopped_leaves_nothing(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    temporary, environ = temporary_folder(tmp_path)
    async with running_command("demo", folder=tmp_path, env=environ) as running:
        await wait_for_output(running, "| ")
        assert paths_below(temporary)
        running.send(number)
        result = await running.wait_for_end()

    assert (result.exit_code, result.stderr.strip()) == (code, "")
    assert paths_below(tmp_path) == ["temporary"]


async def wait_for_output(running: RunningCommand, text: str) -> None:
    """Wait until the command prints the text."""
    assert running.process.stdout is not None
    await running.process.stdout.readuntil(text.encode())


def invoke_demo(*arguments: str) -> Result:
    return CliRunner().invoke(demo, arguments)


@pytest.mark.usefixtures("fast_provider")
def test_a_cassette_that_is_kept_is_a_complete_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(temporary_folder(tmp_path)[0]))
    keep = tmp_path / "deep" / "kept"
    result = invoke_demo("--keep", str(keep))

    assert result.exit_code == 0
    library = Library(keep)
    library.refresh()
    [path] = library.cassette_paths()
    assert cassette_outcome(library.load_cassette(path)).is_complete
    steps = re.findall(r"^(provider|record|stop|replay) .+", result.stdout, re.MULTILINE)
    assert steps == ["provider", "record", "stop", "replay"]
    assert f"llm-proxy show {path}" in result.stdout
    assert paths_below(tmp_path / "temporary") == []
    assert [item for item in keep.rglob("*") if item.is_file()] == [path]


@pytest.mark.usefixtures("fast_provider")
def test_a_demo_kept_twice_keeps_one_take(tmp_path: Path) -> None:
    assert [invoke_demo("--keep", str(tmp_path)).exit_code for _ in range(2)] == [0, 0]
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = invoke_demo("--keep", str(tmp_path / "file" / "below"))
    assert isinstance(result.exception, UsageError)
    assert f"cannot create {tmp_path}/file/below: " in str(result.exception)


@pytest.mark.usefixtures("fast_provider")
async def test_a_recording_that_fails_ends_the_demo_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "openai-chat").touch()  # in the way of the folder of its cassette
    steps: list[str] = []
    message = f"cannot write a cassette to {tmp_path}: Not a directory"
    with pytest.raises(LlmProxyError, match=message):
        await demo_module.run_demo(
            tmp_path,
            tmp_path / "spool",
            show_step=lambda name, text: steps.append(name),
            show_message=lambda message: None,
        )
    assert steps == ["provider", "record"]


@pytest.fixture
async def demo_result(tmp_path: Path, fast_provider: None) -> DemoResult:
    return await demo_module.run_demo(
        tmp_path / "cassettes",
        tmp_path / "spool",
        show_step=lambda name, text: None,
        show_message=lambda message: None,
    )


def with_merged_reads(result: DemoResult) -> DemoResult:
    """Merge the first two reads of the replay; the bytes stay the same."""
    first, second, *rest = result.replayed_reads
    merged = Read(first.at_ms, first.received_bytes + second.received_bytes)
    return altered_result(result, replayed_reads=(merged, *rest))


CHANGES: list[tuple[str, Callable[[DemoResult], DemoResult]]] = [
    (
        "the bytes of the replay differ from the cassette",
        lambda result: altered_result(result, replayed_reads=result.replayed_reads[:-1]),
    ),
    ("the reads of the replay differ from the cassette", with_merged_reads),
    (
        "the client received different bytes than the provider sent",
        lambda result: altered_result(result, live_body=result.live_body[:-1]),
    ),
    (
        "the cassette stores different bytes than the provider sent",
        lambda result: altered_result(result, provider_body=result.provider_body[:-1]),
    ),
]


def altered_result(result: DemoResult, **changes: object) -> DemoResult:
    return dataclasses.replace(result, **changes)  # type: ignore[arg-type] # the cases use existing fields


@each_row(("expected_message", "change"), CHANGES)
async def test_every_difference_is_reported(
    demo_result: DemoResult, expected_message: str, change: Callable[[DemoResult], DemoResult]
) -> None:
    assert demo_command.find_differences(demo_result) == []
    assert expected_message in demo_command.find_differences(change(demo_result))


async def test_an_incomplete_cassette_is_reported(demo_result: DemoResult) -> None:
    partial_messages = tuple(
        message for message in demo_result.cassette.framed_messages if b"[DONE]" not in message
    )[:5]
    changed = altered_result(
        demo_result, cassette=cassette_with_messages(demo_result, partial_messages)
    )
    assert "the cassette is partial" in demo_command.find_differences(changed)[0]


def cassette_with_messages(demo_result: DemoResult, messages: tuple[bytes, ...]) -> object:
    return dataclasses.replace(demo_result.cassette, framed_messages=messages)


@pytest.mark.usefixtures("fast_provider")
def test_a_difference_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    run_demo = demo_module.run_demo

    async def run_altered_demo(*folders: Path, **shown: Any) -> DemoResult:
        return with_merged_reads(await run_demo(*folders, **shown))

    monkeypatch.setattr(demo_module, "run_demo", run_altered_demo)
    result = invoke_demo()
    assert result.exit_code == 1
    assert "DIFFERENT  the reads of the replay differ from the cassette" in result.stdout
    assert "equal" not in result.stdout


async def test_both_timelines_share_one_scale(demo_result: DemoResult) -> None:
    rows = dict(demo_command.comparison_rows(demo_result)[:3])
    assert rows["timeline"].startswith("0 ")
    assert len(rows["timeline"]) == len(rows["recorded"]) == len(rows["replayed"]) == 89
    assert rows["recorded"].strip()


@pytest.mark.usefixtures("fast_provider")
def test_the_output_is_printable_in_ascii() -> None:
    result = CliRunner(charset="ascii").invoke(demo)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout_bytes.isascii()
    assert result.stdout_bytes.count(b"Gr??e!") == 2


async def test_a_provider_that_still_answers_stops_the_demo() -> None:
    async with upstream(fixed_length(b"{}")) as server:
        port = server.url.rpartition(":")[2]
        with pytest.raises(LlmProxyError, match="another program now uses"):
            await demo_module.verify_stopped(f"127.0.0.1:{port}")


async def stream_cut_short(connection: Connection) -> None:
    await connection.begin()
    await connection.chunk(b"data: {}")
    connection.fin()


async def stream_with_status_500(connection: Connection) -> None:
    await connection.begin(status="500 Internal Server Error")
    await connection.chunk(b"data: {}")
    await connection.finish()


@each_row(
    ("script", "message"),
    [
        (fixed_length(b"{}"), "status 200 and no stream"),
        (stream_with_status_500, "status 500 and no stream"),
        (stream_cut_short, "no complete response"),
    ],
    ids=["no stream", "another status", "cut short"],
)
async def test_an_unexpected_response_is_an_error(script: Script, message: str) -> None:
    request = demo_module.load_script().request
    async with upstream(script) as server:
        with pytest.raises(LlmProxyError, match=message):
            await demo_module.send_request(server.url, request, lambda message: None)


def test_the_provider_splits_events_across_reads() -> None:
    script = demo_module.load_script()
    pieces = [read.received_bytes for read in script.reads]
    events = framing.split_messages("sse", script.response_body)

    assert len(pieces) == len(events) >= 40
    assert pieces != list(events)
    assert list(filter(breaks_a_character, pieces))


def breaks_a_character(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


def test_the_provider_paces_its_reads_like_a_model() -> None:
    times = [read.at_ms for read in demo_module.load_script().reads]
    gaps = [after - before for before, after in pairwise(times)]
    assert times[0] > 100
    assert min(gaps) >= 10
    assert max(gaps) <= 80
    assert max(gaps) > 3 * min(gaps)
    assert times[-1] < 2500  # so that startup and two such streams take less than 10 s
