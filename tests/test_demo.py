"""`llm-proxy demo`: what it shows is true, and it leaves nothing behind."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import signal
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli_process import Running, run, started
from llm_proxy import framing
from llm_proxy.cli.demo import demo, report
from llm_proxy.errors import LlmProxyError, UsageError
from llm_proxy.exchange import Read
from llm_proxy.outcome import outcome_of
from llm_proxy.shell.demo import provider as demo_provider
from llm_proxy.shell.demo import run as stage
from llm_proxy.shell.demo.run import DemoObserver, DemoResult, ReceivedResponse, play_demo
from llm_proxy.shell.library.library import Library
from stub_upstream import upstream, whole

SILENT = DemoObserver(lambda _name, _text: None, lambda _read: None)
FIGURES = re.compile(
    r"^(recorded|replayed) +([\d.]+) ms +([\d.]+) ms +([\d.]+) ms +(.*)$", re.MULTILINE
)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider in a hurry."""
    monkeypatch.setattr(demo_provider, "_FIRST", 2.0)
    monkeypatch.setattr(demo_provider, "_SHORTEST", 0.5)
    monkeypatch.setattr(demo_provider, "_LONGEST", 2.0)


def left_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def scratch(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A folder for temporary files, and the environment that names it."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder, {"TMPDIR": str(folder)}


async def test_the_demo_shows_two_equal_timelines_and_leaves_nothing(tmp_path: Path) -> None:
    _, environ = scratch(tmp_path)
    ran = await run("demo", folder=tmp_path, env=environ)

    assert (ran.code, ran.err) == (0, "")
    recorded, replayed = FIGURES.findall(ran.out)
    assert [recorded[0], replayed[0]] == ["recorded", "replayed"]
    assert recorded[4] == replayed[4]  # reads, bytes and checksum
    body = b"".join(demo_provider.response_events())
    assert f"all {len(body):,} bytes (sha256 {hashlib.sha256(body).hexdigest()[:12]})" in ran.out
    assert 'says "Connection refused"' in ran.out
    assert re.search(r"largest error of any read [\d.]+ ms", ran.out)
    assert "cassettes/openai-chat/demo-model/" in ran.out
    assert ran.out.count("слово за словом") == 2
    assert "\x1b" not in ran.out
    assert not re.search(r" $", ran.out, re.MULTILINE)
    assert max(map(len, ran.out.splitlines())) <= 100
    assert left_in(tmp_path) == ["temporary"]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
async def test_a_demo_that_is_stopped_leaves_nothing(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    temporary, environ = scratch(tmp_path)
    async with started("demo", folder=tmp_path, env=environ) as running:
        await printed(running, "| ")
        assert left_in(temporary)
        running.send(number)
        ran = await running.ended()

    assert (ran.code, ran.err.strip()) == (code, "")
    assert left_in(tmp_path) == ["temporary"]


async def printed(running: Running, what: str) -> None:
    """Wait until the command prints this."""
    assert running.process.stdout is not None
    await running.process.stdout.readuntil(what.encode())


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(demo, arguments)


@pytest.mark.usefixtures("hasty")
def test_a_cassette_that_is_kept_is_a_complete_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(scratch(tmp_path)[0]))
    keep = tmp_path / "deep" / "kept"
    result = invoke("--keep", str(keep))

    assert result.exit_code == 0
    library = Library(keep)
    library.refresh()
    [path] = library.files()
    assert outcome_of(library.load_cassette(path)).complete
    assert f"llm-proxy show {path}" in result.stdout
    assert left_in(tmp_path / "temporary") == []
    assert [item for item in keep.rglob("*") if item.is_file()] == [path]


@pytest.mark.usefixtures("hasty")
def test_a_demo_kept_twice_keeps_one_take(tmp_path: Path) -> None:
    assert [invoke("--keep", str(tmp_path)).exit_code for _ in range(2)] == [0, 0]
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = invoke("--keep", str(tmp_path / "file" / "below"))
    assert isinstance(result.exception, UsageError)
    assert "file/below cannot be made" in str(result.exception)


@pytest.fixture
async def played(tmp_path: Path, hasty: None) -> DemoResult:
    return await play_demo(tmp_path / "cassettes", tmp_path / "spool", SILENT)


def shortened(heard: ReceivedResponse) -> ReceivedResponse:
    return dataclasses.replace(heard, reads=heard.reads[:-1])


def recut(heard: ReceivedResponse) -> ReceivedResponse:
    """The same bytes, its first two reads in one."""
    first, second, *rest = heard.reads
    return dataclasses.replace(heard, reads=(Read(first.at_ms, first.data + second.data), *rest))


CHANGES: list[tuple[str, Callable[[DemoResult], DemoResult]]] = [
    ("other bytes than were recorded", lambda it: altered(it, replayed=shortened(it.replayed))),
    ("cut into other reads", lambda it: altered(it, replayed=recut(it.replayed))),
    ("passed other bytes on", lambda it: altered(it, live=shortened(it.live))),
    ("cassette holds other bytes", lambda it: altered(it, sent=it.sent[:-1])),
    ("another status", lambda it: altered(it, replayed=ReceivedResponse(424, it.replayed.reads))),
]


def altered(it: DemoResult, **changes: object) -> DemoResult:
    return dataclasses.replace(it, **changes)  # type: ignore[arg-type] # the cases name real fields


@pytest.mark.parametrize(("says", "change"), CHANGES, ids=[says for says, _ in CHANGES])
async def test_whatever_differs_is_said(
    played: DemoResult, says: str, change: Callable[[DemoResult], DemoResult]
) -> None:
    assert report.find_differences(played) == []
    found = report.find_differences(change(played))
    assert [item for item in found if says in item]
    assert report.verdict_line(played, found)[0] == ("DIFFERENT", found[0])


async def test_a_cassette_that_is_not_complete_is_said(played: DemoResult) -> None:
    open_ended = tuple(message for message in played.cassette.messages if b"[DONE]" not in message)[
        :5
    ]
    changed = altered(played, cassette=altered_cassette(played, open_ended))
    assert "the cassette is partial" in report.find_differences(changed)[0]


def altered_cassette(played: DemoResult, messages: tuple[bytes, ...]) -> object:
    return dataclasses.replace(played.cassette, messages=messages)


@pytest.mark.usefixtures("hasty")
def test_a_difference_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    async def altered_play(cassettes: Path, spool: Path, audience: DemoObserver) -> DemoResult:
        done = await play_demo(cassettes, spool, audience)
        return altered(done, replayed=recut(done.replayed))

    monkeypatch.setattr(stage, "play_demo", altered_play)
    result = invoke()
    assert result.exit_code == 1
    assert "DIFFERENT" in result.stdout
    assert "equal" not in result.stdout


async def test_both_timelines_share_one_scale_also_in_ascii(played: DemoResult) -> None:
    rows = dict(report.comparison_lines(played, 60, ascii_only=True)[:3])
    assert rows["timeline"].startswith("0 ")
    assert len(rows["timeline"]) == len(rows["recorded"]) == len(rows["replayed"]) == 60
    assert rows["recorded"].isascii()
    assert rows["recorded"].strip()


async def test_the_peek_into_the_cassette_is_cut_to_the_width(played: DemoResult) -> None:
    rows = report.cassette_lines(played, 70, None)
    lines = [text for _, text in rows[2:]]
    assert all(len(line) <= 70 for line in lines)
    assert [line[:8] for line in lines if line.startswith('{"end":')]
    assert "Grüße" in "".join(lines)


async def test_a_provider_that_still_answers_stops_the_demo() -> None:
    async with upstream(whole(b"{}")) as live:
        port = int(live.url.rpartition(":")[2])
        with pytest.raises(LlmProxyError, match="still answers"):
            await stage._connection_error(demo_provider.DemoProvider("127.0.0.1", port, 0, ()))


async def test_an_answer_that_is_none_is_an_error() -> None:
    async with upstream(whole(b"{}")) as live:
        with pytest.raises(LlmProxyError, match="no whole answer"):
            await stage.receive(live.url, SILENT)


def test_the_provider_cuts_its_events_as_networks_do() -> None:
    events = demo_provider.response_events()
    pieces = demo_provider.network_pieces(events)

    assert b"".join(piece.data for piece in pieces) == b"".join(events)
    assert framing.split_messages("sse", b"".join(events)) == list(events)
    assert len(pieces) == len(events) >= 40
    assert [piece.data for piece in pieces] != list(events)
    assert [piece for piece in pieces if breaks_a_character(piece.data)]
    assert demo_provider.network_pieces(events) == pieces


def breaks_a_character(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


def test_the_provider_pauses_as_models_do() -> None:
    times = [piece.at_ms for piece in demo_provider.network_pieces(demo_provider.response_events())]
    gaps = [after - before for before, after in pairwise(times)]
    assert times[0] > 100
    assert min(gaps) >= 10
    assert max(gaps) <= 80
    assert max(gaps) > 3 * min(gaps)
    assert times[-1] < 2500  # and a demo of two such streams, and a start, is below 10 s
