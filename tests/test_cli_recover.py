"""`llm-proxy recover`: recordings that a crash broke off, made cassettes."""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli_process import Ran, run, serving
from in_process_proxy import cassettes
from llm_proxy.cassette import Cassette
from llm_proxy.cli.recover import recover as command
from llm_proxy.exchange import Ending, ResponseHead
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording import recovery
from llm_proxy.shell.recording.cassette_filer import CassetteFiler
from llm_proxy.shell.recording.recovery import Result
from llm_proxy.shell.recording.spooling import SpoolFile
from raw_http import ask
from spool_files import PIECES, REQUEST, aged, body, left, opening
from stored_cassettes import STREAM, chat, event, key_of, put, says
from stub_upstream import Connection, upstream
from waiting import until

KEY = key_of(REQUEST)
TAKE = f"cassettes/openai-chat/m/{KEY[:16]}"


async def recover(folder: Path, *options: str) -> Ran:
    return await run("recover", "--spool", "spool", *options, folder=folder)


def only(folder: Path) -> Cassette:
    [cassette] = cassettes(folder)
    return cassette


async def test_a_recording_that_was_broken_off_becomes_a_cassette(tmp_path: Path) -> None:
    path = left(tmp_path, opening(tmp_path) + body(*PIECES))

    ran = await recover(tmp_path)

    assert ran.code == 0
    assert ran.out == (
        f"recovered {TAKE}-1.jsonl: 2 messages, 117 bytes, partial: the recorder was stopped\n"
    )
    assert ran.err.startswith("llm-proxy: 1 recording recovered, 1 of them partial; ")
    assert not path.exists()
    cassette = only(tmp_path)
    assert cassette.messages == PIECES
    assert [read.at_ms for read in cassette.reads] == [10.0, 20.0]
    assert (cassette.end.ending, cassette.end.at_ms) == (Ending.KILLED, 20.0)


async def test_a_line_that_the_crash_tore_is_dropped_and_the_rest_comes_back(
    tmp_path: Path,
) -> None:
    left(tmp_path, opening(tmp_path) + body(*PIECES)[:-7])
    assert (await recover(tmp_path)).code == 0
    assert only(tmp_path).body == PIECES[0]


async def test_a_recording_without_a_read_comes_back_with_its_head(tmp_path: Path) -> None:
    left(tmp_path, opening(tmp_path) + body())
    ran = await recover(tmp_path)
    assert "0 messages, 0 bytes" in ran.out
    assert only(tmp_path).head == STREAM


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"", "empty: "), (None, "no answer had begun to arrive")],
    ids=["empty", "no head"],
)
async def test_a_recording_that_had_not_begun_is_deleted_with_a_line(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    path = left(tmp_path, opening(tmp_path) if content is None else content)

    ran = await recover(tmp_path)

    assert ran.code == 0
    assert ran.out.startswith(f"deleted {path.relative_to(tmp_path)}: {why}")
    assert not path.exists()
    assert cassettes(tmp_path) == []


async def test_a_recording_that_runs_is_left_alone(tmp_path: Path) -> None:
    running = SpoolFile(tmp_path / "spool", "1-1-0123456789abcdef.spool")
    running.append(opening(tmp_path) + body(*PIECES))
    temporary = tmp_path / "cassettes" / f".{running.path.stem}.tmp"
    temporary.parent.mkdir()
    aged(_touched(temporary), 7200)

    ran = await recover(tmp_path)
    running.release()

    assert (ran.code, ran.out) == (0, "")
    assert "nothing to recover for cassettes" in ran.err
    assert temporary.exists()
    assert running.path.exists()


async def test_nothing_to_do_is_said(tmp_path: Path) -> None:
    ran = await recover(tmp_path)
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("llm-proxy: nothing to recover for cassettes: ")


async def test_no_take_is_overwritten(tmp_path: Path) -> None:
    kept = put(tmp_path, REQUEST, says("one"), says("two"))
    before = [path.read_bytes() for path in kept]
    left(tmp_path, opening(tmp_path, take=1) + body(*PIECES), "1-1-0123456789abcdef")
    left(tmp_path, opening(tmp_path, take=2) + body(*PIECES[:1]), "1-2-0123456789abcdef")

    ran = await recover(tmp_path)

    assert f"{TAKE}-3.jsonl: 2 messages" in ran.out
    assert f"{TAKE}-4.jsonl: 1 message" in ran.out
    assert [path.read_bytes() for path in kept] == before


def test_two_processes_that_file_takes_of_one_key_overwrite_nothing(tmp_path: Path) -> None:
    both = [CassetteFiler(Library(tmp_path / "cassettes"), renew=False) for _ in range(2)]

    filed = []
    for number, files in enumerate([*both, *both], 1):
        path = left(tmp_path, opening(tmp_path, take=1) + body(event(str(number))))
        filed.append(files.file_spool(path))

    assert [item and item.path.name for item in filed] == [
        f"{KEY[:16]}-{number}.jsonl" for number in (1, 2, 3, 4)
    ]
    assert [cassette.body for cassette in cassettes(tmp_path)] == [
        event(str(item)) for item in (1, 2, 3, 4)
    ]


async def test_secrets_that_were_replaced_are_counted(tmp_path: Path) -> None:
    ids = (("X-Request-Id", "[redacted]"), ("Cache-Control", "[redacted]"))
    head = ResponseHead(200, "OK", (*STREAM.headers, *ids), "chunked")
    left(tmp_path, opening(tmp_path) + body(event("[redacted] [redacted]"), head=head))
    await recover(tmp_path)
    assert only(tmp_path).end.redacted == 3


def test_what_was_recovered_does_not_pile_up_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        left(tmp_path, opening(tmp_path, chat(str(number))) + body(*PIECES), f"1-{number}")
    real, alive = recovery.recover_spools, list[int]()

    def watched(library: Library, folder: Path) -> Iterator[Result]:
        for result in real(library, folder):
            alive.append(sum(isinstance(get_object, Cassette) for get_object in gc.get_objects()))
            yield result

    monkeypatch.setattr(recovery, "recover_spools", watched)
    before = sum(isinstance(get_object, Cassette) for get_object in gc.get_objects())
    folders = ["--cassettes", str(tmp_path / "cassettes"), "--spool", str(tmp_path / "spool")]
    ran = CliRunner().invoke(command, folders)
    assert (ran.exit_code, ran.output.count("messages")) == (0, 6)
    assert "6 recordings recovered" in ran.output + ran.stderr
    assert 0 < max(alive) - before <= 2


async def test_the_spools_of_another_library_are_named_and_kept(tmp_path: Path) -> None:
    path = left(tmp_path, opening(tmp_path / "other") + body(*PIECES))

    ran = await recover(tmp_path)

    assert (ran.code, ran.out) == (0, "")
    assert path.exists()
    other = tmp_path / "other" / "cassettes"
    assert ran.complaint == (
        f"llm-proxy: 1 recording of another library: llm-proxy recover --cassettes {other}"
    )
    assert (await recover(tmp_path, "--cassettes", str(other))).out.startswith("recovered ")
    assert not path.exists()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (lambda of: b"\x00" * 40, "it is torn before its request ends"),
        (lambda of: b"{}\n{}\n{}\n{}\n", "line 1: not a spool's line: "),
        (lambda of: of[0] + b'{"response":1}\n' + of[1], "line 4: not a spool's line: "),
        (lambda of: of[0] + of[1] + b"garbage\n" + of[1][-60:], "line 7: the line is no JSON"),
        (lambda of: of[0] + of[1] + b'{"read":1,"x":1}\n', "line 7: not a spool's line: "),
    ],
    ids=["zeros", "another file", "head", "damage in the middle", "a read of another form"],
)
async def test_a_spool_that_cannot_be_read_is_kept_and_named(
    tmp_path: Path, content: object, why: str
) -> None:
    assert callable(content)
    path = left(tmp_path, content((opening(tmp_path), body(*PIECES))), "1-1-0123456789abcdef")
    before = path.read_bytes()
    left(tmp_path, opening(tmp_path) + body(*PIECES), "1-2-0123456789abcdef")

    ran = await recover(tmp_path)

    assert ran.code == 1
    [sentence] = [row for row in ran.err.splitlines() if "it is kept as it is" in row]
    assert sentence.startswith(
        f"llm-proxy: {path.relative_to(tmp_path)} cannot be recovered: {why}"
    )
    assert path.read_bytes() == before
    assert ran.out.startswith("recovered ")


async def test_a_library_that_cannot_be_written_keeps_the_spool(tmp_path: Path) -> None:
    path = left(tmp_path, opening(tmp_path) + body(*PIECES))
    (tmp_path / "cassettes").mkdir()
    (tmp_path / "cassettes" / "openai-chat").write_text("in the way")

    ran = await recover(tmp_path)

    assert (ran.code, ran.out) == (1, "")
    assert "cassettes cannot be written: " in ran.err
    assert path.exists()


async def test_a_spool_folder_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("")
    ran = await recover(tmp_path)
    assert ran.code == 1
    assert ran.err == "llm-proxy: spool cannot be read: Not a directory\n"


def _touched(path: Path) -> Path:
    path.touch()
    return path


async def test_temporary_files_are_swept_once_nobody_writes_them(tmp_path: Path) -> None:
    left(tmp_path, opening(tmp_path), "1-1")
    folder = tmp_path / "cassettes" / "openai-chat"
    folder.mkdir(parents=True)
    of_abandoned = aged(_touched(folder / ".1-1.0123abcd.tmp"), 70)
    old = aged(_touched(folder / ".2-1.2.0123abcd.tmp"), 3700)
    young = aged(_touched(folder / ".3-1.0123abcd.tmp"), 50)
    others = [aged(_touched(folder / name), 9999) for name in (".mine.tmp", "2-1-a.tmp", ".tmp")]

    ran = await recover(tmp_path)

    assert ran.code == 0
    assert not of_abandoned.exists()
    assert not old.exists()
    assert young.exists()
    assert all(path.exists() for path in others)
    assert f"deleted {old.relative_to(tmp_path)}: a cassette that was never finished" in ran.out


async def test_the_default_spool_folder_is_that_of_the_recorder(tmp_path: Path) -> None:
    path = left(tmp_path, opening(tmp_path) + body(*PIECES))
    default = tmp_path / "state" / "llm-proxy" / "spool"
    default.mkdir(parents=True)
    path.rename(default / path.name)

    assert (await run("recover", folder=tmp_path)).out.startswith("recovered ")


async def test_two_recoveries_at_once_recover_each_recording_once(tmp_path: Path) -> None:
    for number in range(12):
        left(
            tmp_path,
            opening(tmp_path, chat(str(number // 3))) + body(event(str(number))),
            f"1-{number}-0123456789abcdef",
        )

    ran = await asyncio.gather(*(recover(tmp_path) for _ in range(3)))

    assert [item.err for item in ran if item.code] == []
    assert sum(item.out.count("recovered ") for item in ran) == 12
    bodies = {cassette.body for cassette in cassettes(tmp_path)}
    assert bodies == {event(str(number)) for number in range(12)}


class Flood:
    """A provider whose streams never end, and what it wrote when."""

    def __init__(self, roll: random.Random) -> None:
        self._roll = roll
        self.sent: list[tuple[float, bytes]] = []

    async def script(self, connection: Connection) -> None:
        await connection.begin()
        for number in itertools.count():
            piece = event(f"{connection.number}.{number}")
            await connection.chunk(piece)
            self.sent.append((asyncio.get_running_loop().time(), piece))
            await asyncio.sleep(self._roll.uniform(0, 0.01))

    def before(self, moment: float) -> list[bytes]:
        """Everything that was written before a moment."""
        return [piece for at, piece in self.sent if at < moment]


@pytest.mark.parametrize("seed", range(5))
async def test_what_had_arrived_50_ms_before_a_kill_comes_back(tmp_path: Path, seed: int) -> None:
    """A recorder is killed at a random moment of three streams; `recover` loses nothing old."""
    roll = random.Random(seed)
    flood = Flood(roll)
    async with upstream(flood.script) as provider:
        live = ("--upstream", f"default={provider.url}", "--spool", "spool")
        async with serving("record", *live, folder=tmp_path) as recorder:
            clients = [asyncio.ensure_future(ask(recorder.url, chat(str(i)))) for i in range(3)]
            await until(lambda: len(flood.sent) > 40)
            await asyncio.sleep(roll.uniform(0.05, 0.2))
            killed = asyncio.get_running_loop().time()
            recorder.process.kill()
            await recorder.process.wait()
            await asyncio.gather(*clients)

    ran = await recover(tmp_path)

    assert ran.code == 0
    assert (await run("verify", folder=tmp_path)).code == 0
    found = b"".join(cassette.body for cassette in cassettes(tmp_path))
    old = flood.before(killed - 0.05)
    assert len(old) > 3
    assert [piece for piece in old if piece not in found] == []
