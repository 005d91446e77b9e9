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

from cli_process import RunningCommand, run_command, running_command
from llm_proxy import framing
from llm_proxy.cassette_views import cassette_outcome
from llm_proxy.cli import demo as report
from llm_proxy.cli.demo import demo
from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.exchange import Read
from llm_proxy.shell import demo as stage
from llm_proxy.shell.demo import DemoResult, ReceivedResponse, run_demo
from llm_proxy.shell.library.library import Library
from stub_upstream import fixed_length, upstream

SUMMARY_ROW = re.compile(
    r"^(recorded|replayed) +([\d.]+) ms +([\d.]+) ms +([\d.]+) ms +(.*)$", re.MULTILINE
)


@pytest.fixture
def fast_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses of the demo provider."""
    script = stage.load_script()
    reads = tuple(dataclasses.replace(read, at_ms=read.at_ms / 40) for read in script.reads)
    fast_script = dataclasses.replace(script, reads=reads)
    monkeypatch.setattr(stage, "load_script", lambda: fast_script)


def paths_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def temporary_folder(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """Create a folder for temporary files; return it and the environment that names it."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder, {"TMPDIR": str(folder)}


async def test_the_demo_shows_two_equal_timelines_and_leaves_nothing(tmp_path: Path) -> None:
    _, environ = temporary_folder(tmp_path)
    result = await run_command("demo", folder=tmp_path, env=environ)

    assert (result.exit_code, result.stderr) == (0, "")
    recorded, replayed = SUMMARY_ROW.findall(result.stdout)
    assert [recorded[0], replayed[0]] == ["recorded", "replayed"]
    assert recorded[4] == replayed[4]  # reads, bytes and checksum
    body = stage.load_script().response_body
    assert (
        f"all {len(body):,} bytes (sha256 {hashlib.sha256(body).hexdigest()[:12]})" in result.stdout
    )
    assert 'says "Connection refused"' in result.stdout
    assert re.search(r"largest error of any read [\d.]+ ms", result.stdout)
    assert "cassettes/openai-chat/demo-model/" in result.stdout
    assert result.stdout.count("слово за словом") == 2
    assert "\x1b" not in result.stdout
    assert not re.search(r" $", result.stdout, re.MULTILINE)
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert paths_below(tmp_path) == ["temporary"]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
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
    assert "file/below cannot be made" in str(result.exception)


@pytest.fixture
async def demo_result(tmp_path: Path, fast_provider: None) -> DemoResult:
    return await run_demo(
        tmp_path / "cassettes",
        tmp_path / "spool",
        on_step=lambda _name, _text: None,
        on_chunk_received=lambda _read: None,
    )


def without_last_read(response: ReceivedResponse) -> ReceivedResponse:
    return dataclasses.replace(response, reads=response.reads[:-1])


def with_merged_reads(response: ReceivedResponse) -> ReceivedResponse:
    """Merge the first two reads; the bytes stay the same."""
    first, second, *rest = response.reads
    return dataclasses.replace(
        response, reads=(Read(first.at_ms, first.received_bytes + second.received_bytes), *rest)
    )


CHANGES: list[tuple[str, Callable[[DemoResult], DemoResult]]] = [
    (
        "other bytes than were recorded",
        lambda result: altered_result(
            result, replayed_response=without_last_read(result.replayed_response)
        ),
    ),
    (
        "cut into other reads",
        lambda result: altered_result(
            result, replayed_response=with_merged_reads(result.replayed_response)
        ),
    ),
    (
        "passed other bytes on",
        lambda result: altered_result(
            result, live_response=without_last_read(result.live_response)
        ),
    ),
    (
        "cassette holds other bytes",
        lambda result: altered_result(
            result, provider_response_body=result.provider_response_body[:-1]
        ),
    ),
    (
        "another status",
        lambda result: altered_result(
            result, replayed_response=ReceivedResponse(424, result.replayed_response.reads)
        ),
    ),
]


def altered_result(result: DemoResult, **changes: object) -> DemoResult:
    return dataclasses.replace(result, **changes)  # type: ignore[arg-type] # the cases use existing fields


@pytest.mark.parametrize(
    ("expected_message", "change"),
    CHANGES,
    ids=[expected_message for expected_message, _ in CHANGES],
)
async def test_every_difference_is_reported(
    demo_result: DemoResult, expected_message: str, change: Callable[[DemoResult], DemoResult]
) -> None:
    assert report.find_differences(demo_result) == []
    differences = report.find_differences(change(demo_result))
    assert [item for item in differences if expected_message in item]
    assert report.result_lines(demo_result, differences)[0] == ("DIFFERENT", differences[0])


async def test_an_incomplete_cassette_is_reported(demo_result: DemoResult) -> None:
    partial_messages = tuple(
        message for message in demo_result.cassette.framed_messages if b"[DONE]" not in message
    )[:5]
    changed = altered_result(
        demo_result, cassette=cassette_with_messages(demo_result, partial_messages)
    )
    assert "the cassette is partial" in report.find_differences(changed)[0]


def cassette_with_messages(demo_result: DemoResult, messages: tuple[bytes, ...]) -> object:
    return dataclasses.replace(demo_result.cassette, framed_messages=messages)


@pytest.mark.usefixtures("fast_provider")
def test_a_difference_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play_altered_demo(cassettes: Path, spool: Path, **callbacks: Any) -> DemoResult:
        original = await run_demo(cassettes, spool, **callbacks)
        return altered_result(
            original, replayed_response=with_merged_reads(original.replayed_response)
        )

    monkeypatch.setattr(stage, "run_demo", play_altered_demo)
    result = invoke_demo()
    assert result.exit_code == 1
    assert "DIFFERENT" in result.stdout
    assert "equal" not in result.stdout


async def test_both_timelines_share_one_scale_also_in_ascii(demo_result: DemoResult) -> None:
    rows = dict(report.comparison_lines(demo_result, 60, ascii_only=True)[:3])
    assert rows["timeline"].startswith("0 ")
    assert len(rows["timeline"]) == len(rows["recorded"]) == len(rows["replayed"]) == 60
    assert rows["recorded"].isascii()
    assert rows["recorded"].strip()


async def test_the_cassette_excerpt_is_cut_to_the_width(demo_result: DemoResult) -> None:
    rows = report.cassette_lines(demo_result, 70, None)
    lines = [text for _, text in rows[2:]]
    assert all(len(line) <= 70 for line in lines)
    assert [line[:8] for line in lines if line.startswith('{"end":')]
    assert "Grüße" in "".join(lines)


async def test_a_provider_that_still_answers_stops_the_demo() -> None:
    async with upstream(fixed_length(b"{}")) as server:
        port = server.url.rpartition(":")[2]
        with pytest.raises(LlmProxyError, match="still answers"):
            await stage._verify_stopped(f"127.0.0.1:{port}")


async def test_an_unexpected_response_is_an_error() -> None:
    async with upstream(fixed_length(b"{}")) as server:
        with pytest.raises(LlmProxyError, match="no whole answer"):
            await stage.send_question(server.url, b"{}", lambda _read: None)


def test_the_provider_splits_events_across_reads() -> None:
    script = stage.load_script()
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
    times = [read.at_ms for read in stage.load_script().reads]
    gaps = [after - before for before, after in pairwise(times)]
    assert times[0] > 100
    assert min(gaps) >= 10
    assert max(gaps) <= 80
    assert max(gaps) > 3 * min(gaps)
    assert times[-1] < 2500  # so that startup and two such streams take less than 10 s
