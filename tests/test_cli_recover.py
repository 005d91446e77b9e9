"""`llm-proxy recover`: turns recordings that a crash interrupted into cassettes."""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from case_tables import each_row
from cli_process import CommandResult, run_command, running_server
from in_process_proxy import load_cassettes
from llm_proxy.cassette import Cassette
from llm_proxy.cli.recover import recover as command
from llm_proxy.exchange import Ending, ResponseHead
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.recording import recovery
from llm_proxy.shell.recording.cassette_filer import CassetteFiler
from llm_proxy.shell.recording.recovery import RecoveryResult
from llm_proxy.shell.recording.spooling import SpoolFile
from raw_http import build_http_request, send_request
from spool_files import EVENTS, REQUEST, encode_body, encode_opening, make_older, write_spool
from stored_cassettes import (
    SSE_HEAD,
    chat_event,
    key_of_request,
    raw_chat_request,
    text_response,
    write_cassettes,
)
from stub_upstream import Connection, upstream
from thoroughness import quick_or_thorough
from waiting import wait_until

HEALTH = build_http_request("/_proxy/health", b"", method="GET")
KEY = key_of_request(REQUEST)
TAKE = f"cassettes/openai-chat/m/{KEY[:16]}"


async def run_recover(folder: Path, *options: str) -> CommandResult:
    return await run_command("recover", "--spool", "spool", *options, folder=folder)


def only_cassette(folder: Path) -> Cassette:
    [cassette] = load_cassettes(folder)
    return cassette


async def test_a_recording_that_was_broken_off_becomes_a_cassette(tmp_path: Path) -> None:
    path = write_spool(tmp_path, encode_opening(tmp_path) + encode_body(*EVENTS))

    result = await run_recover(tmp_path)

    assert result.exit_code == 0
    assert result.stdout == (
        f"recovered {TAKE}-1.jsonl: 2 messages, 117 bytes, partial: llm-proxy was stopped\n"
    )
    assert result.stderr.startswith("llm-proxy: 1 recording recovered, 1 partial; ")
    assert not path.exists()
    cassette = only_cassette(tmp_path)
    assert cassette.framed_messages == EVENTS
    assert [read.at_ms for read in cassette.reads] == [10.0, 20.0]
    assert (cassette.response_end.ending, cassette.response_end.at_ms) == (Ending.KILLED, 20.0)


async def test_a_line_that_the_crash_tore_is_dropped_and_the_rest_comes_back(
    tmp_path: Path,
) -> None:
    write_spool(tmp_path, encode_opening(tmp_path) + encode_body(*EVENTS)[:-7])
    assert (await run_recover(tmp_path)).exit_code == 0
    assert only_cassette(tmp_path).response_body == EVENTS[0]


async def test_a_recording_without_a_read_comes_back_with_its_head(tmp_path: Path) -> None:
    write_spool(tmp_path, encode_opening(tmp_path) + encode_body())
    result = await run_recover(tmp_path)
    assert "0 messages, 0 bytes" in result.stdout
    assert only_cassette(tmp_path).response_head == SSE_HEAD


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "the file is empty; "), (None, "no response had started")],
    ids=["empty", "no head"],
)
async def test_a_recording_that_had_not_begun_is_deleted_with_a_line(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    path = write_spool(tmp_path, encode_opening(tmp_path) if content is None else content)

    result = await run_recover(tmp_path)

    assert result.exit_code == 0
    assert result.stdout.startswith(f"deleted {path.relative_to(tmp_path)}: {reason}")
    assert not path.exists()
    assert load_cassettes(tmp_path) == []


async def test_a_recording_that_runs_is_left_alone(tmp_path: Path) -> None:
    running = SpoolFile(tmp_path / "spool", "1-1-0123456789abcdef.spool")
    running.append(encode_opening(tmp_path) + encode_body(*EVENTS))
    temporary = tmp_path / "cassettes" / f".{running.path.stem}.tmp"
    temporary.parent.mkdir()
    make_older(_touched(temporary), 7200)

    result = await run_recover(tmp_path)
    running.close_and_keep()

    assert (result.exit_code, result.stdout) == (0, "")
    assert "no interrupted recordings for ./cassettes" in result.stderr
    assert temporary.exists()
    assert running.path.exists()


async def test_nothing_to_recover_is_reported(tmp_path: Path) -> None:
    result = await run_recover(tmp_path)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("llm-proxy: no interrupted recordings for ./cassettes in ")


async def test_no_take_is_overwritten(tmp_path: Path) -> None:
    kept = write_cassettes(tmp_path, REQUEST, text_response("one"), text_response("two"))
    before = [path.read_bytes() for path in kept]
    write_spool(
        tmp_path, encode_opening(tmp_path, take=1) + encode_body(*EVENTS), "1-1-0123456789abcdef"
    )
    write_spool(
        tmp_path,
        encode_opening(tmp_path, take=2) + encode_body(*EVENTS[:1]),
        "1-2-0123456789abcdef",
    )

    result = await run_recover(tmp_path)

    assert f"{TAKE}-3.jsonl: 2 messages" in result.stdout
    assert f"{TAKE}-4.jsonl: 1 message" in result.stdout
    assert [path.read_bytes() for path in kept] == before


def test_two_processes_that_file_takes_of_one_key_overwrite_nothing(tmp_path: Path) -> None:
    filers = [
        CassetteFiler(Library(tmp_path / "cassettes"), replaces_older=False) for _ in range(2)
    ]

    filed = []
    for number, filer in enumerate([*filers, *filers], 1):
        path = write_spool(
            tmp_path, encode_opening(tmp_path, take=1) + encode_body(chat_event(str(number)))
        )
        filed.append(filer.file_spool(path))

    assert [filed_cassette and filed_cassette.path.name for filed_cassette in filed] == [
        f"{KEY[:16]}-{number}.jsonl" for number in (1, 2, 3, 4)
    ]
    assert [cassette.response_body for cassette in load_cassettes(tmp_path)] == [
        chat_event(str(number)) for number in (1, 2, 3, 4)
    ]


async def test_secrets_that_were_replaced_are_counted(tmp_path: Path) -> None:
    ids = (("X-Request-Id", "[redacted]"), ("Cache-Control", "[redacted]"))
    head = ResponseHead(200, "OK", (*SSE_HEAD.headers, *ids), "chunked")
    write_spool(
        tmp_path,
        encode_opening(tmp_path) + encode_body(chat_event("[redacted] [redacted]"), head=head),
    )
    await run_recover(tmp_path)
    assert only_cassette(tmp_path).response_end.redacted_count == 3


def test_what_was_recovered_does_not_pile_up_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        write_spool(
            tmp_path,
            encode_opening(tmp_path, raw_chat_request(str(number))) + encode_body(*EVENTS),
            f"1-{number}",
        )
    original, alive_counts = recovery.recover_spools, list[int]()

    def count_live_cassettes(*arguments: Any) -> Iterator[RecoveryResult]:
        for result in original(*arguments):
            alive_counts.append(
                sum(isinstance(candidate, Cassette) for candidate in gc.get_objects())
            )
            yield result

    monkeypatch.setattr(recovery, "recover_spools", count_live_cassettes)
    folders = ["--cassettes", str(tmp_path / "cassettes"), "--spool", str(tmp_path / "spool")]
    gc.freeze()  # so that `get_objects` lists only what is made from here on
    try:
        result = CliRunner().invoke(command, folders)
    finally:
        gc.unfreeze()
    assert (result.exit_code, result.output.count("messages")) == (0, 6)
    assert "6 recordings recovered" in result.output + result.stderr
    assert 0 < max(alive_counts) <= 2


async def test_the_spools_of_another_library_are_named_and_kept(tmp_path: Path) -> None:
    path = write_spool(tmp_path, encode_opening(tmp_path / "other") + encode_body(*EVENTS))

    result = await run_recover(tmp_path)

    assert (result.exit_code, result.stdout) == (0, "")
    assert path.exists()
    other_library = tmp_path / "other" / "cassettes"
    assert result.last_error_line == (
        "llm-proxy: 1 interrupted recording of another library; run "
        f"llm-proxy recover --cassettes {other_library} --spool spool"
    )
    assert (await run_recover(tmp_path, "--cassettes", str(other_library))).stdout.startswith(
        "recovered "
    )
    assert not path.exists()


@each_row(
    ("content", "reason"),
    [
        (
            lambda spool_parts: b"\x00" * 40,
            "the spool file is truncated: the request is missing",
        ),
        (lambda spool_parts: b"{}\n{}\n{}\n{}\n", "line 1: invalid spool line: "),
        (
            lambda spool_parts: spool_parts[0] + b'{"response":1}\n' + spool_parts[1],
            "line 4: invalid spool line: ",
        ),
        (
            lambda spool_parts: (
                spool_parts[0] + spool_parts[1] + b"garbage\n" + spool_parts[1][-60:]
            ),
            "line 7: the spool file is damaged: invalid JSON",
        ),
        (
            lambda spool_parts: spool_parts[0] + spool_parts[1] + b'{"read":1,"x":1}\n',
            "line 7: invalid spool line: ",
        ),
    ],
    ids=["zeros", "another file", "head", "damage in the middle", "a read of another form"],
)
async def test_a_spool_that_cannot_be_read_is_kept_and_named(
    tmp_path: Path, content: object, reason: str
) -> None:
    assert callable(content)
    path = write_spool(
        tmp_path, content((encode_opening(tmp_path), encode_body(*EVENTS))), "1-1-0123456789abcdef"
    )
    before = path.read_bytes()
    write_spool(tmp_path, encode_opening(tmp_path) + encode_body(*EVENTS), "1-2-0123456789abcdef")

    result = await run_recover(tmp_path)

    assert result.exit_code == 1
    [sentence] = [row for row in result.stderr.splitlines() if "the file is kept unchanged" in row]
    assert sentence.startswith(f"llm-proxy: cannot recover {path.relative_to(tmp_path)}: {reason}")
    assert path.read_bytes() == before
    assert result.stdout.startswith("recovered ")


async def test_a_library_that_cannot_be_written_keeps_the_spool(tmp_path: Path) -> None:
    path = write_spool(tmp_path, encode_opening(tmp_path) + encode_body(*EVENTS))
    (tmp_path / "cassettes").mkdir()
    (tmp_path / "cassettes" / "openai-chat").write_text("in the way")

    result = await run_recover(tmp_path)

    assert (result.exit_code, result.stdout) == (1, "")
    assert "cannot write a cassette to cassettes: " in result.stderr
    assert path.exists()


async def test_a_spool_folder_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("")
    result = await run_recover(tmp_path)
    assert result.exit_code == 1
    assert result.stderr == "llm-proxy: error: cannot read spool: Not a directory\n"


def _touched(path: Path) -> Path:
    path.touch()
    return path


async def test_temporary_files_are_swept_once_nobody_writes_them(tmp_path: Path) -> None:
    write_spool(tmp_path, encode_opening(tmp_path), "1-1")
    folder = tmp_path / "cassettes" / "openai-chat"
    folder.mkdir(parents=True)
    of_abandoned = make_older(_touched(folder / ".1-1.0123abcd.tmp"), 70)
    old = make_older(_touched(folder / ".2-1.2.0123abcd.tmp"), 3700)
    young = make_older(_touched(folder / ".3-1.0123abcd.tmp"), 50)
    others = [
        make_older(_touched(folder / name), 9999) for name in (".mine.tmp", "2-1-a.tmp", ".tmp")
    ]

    result = await run_recover(tmp_path)

    assert result.exit_code == 0
    assert not of_abandoned.exists()
    assert not old.exists()
    assert young.exists()
    assert all(path.exists() for path in others)
    assert f"deleted {old.relative_to(tmp_path)}: the cassette is unfinished" in result.stdout


async def test_the_default_spool_folder_is_that_of_the_recorder(tmp_path: Path) -> None:
    path = write_spool(tmp_path, encode_opening(tmp_path) + encode_body(*EVENTS))
    default = tmp_path / "state" / "llm-proxy" / "spool"
    default.mkdir(parents=True)
    path.rename(default / path.name)

    assert (await run_command("recover", folder=tmp_path)).stdout.startswith("recovered ")


async def test_two_recoveries_at_once_recover_each_recording_once(tmp_path: Path) -> None:
    for number in range(12):
        write_spool(
            tmp_path,
            encode_opening(tmp_path, raw_chat_request(str(number // 3)))
            + encode_body(chat_event(str(number))),
            f"1-{number}-0123456789abcdef",
        )

    results = await asyncio.gather(*(run_recover(tmp_path) for _ in range(3)))

    assert [result.stderr for result in results if result.exit_code] == []
    assert sum(result.stdout.count("recovered ") for result in results) == 12
    bodies = {cassette.response_body for cassette in load_cassettes(tmp_path)}
    assert bodies == {chat_event(str(number)) for number in range(12)}


class EndlessProvider:
    """A provider whose streams never end; it records what it sent and when."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.sent: list[tuple[float, bytes]] = []

    async def script(self, connection: Connection) -> None:
        await connection.begin()
        for number in itertools.count():
            piece = chat_event(f"{connection.number}.{number}")
            await connection.chunk(piece)
            self.sent.append((asyncio.get_running_loop().time(), piece))
            await asyncio.sleep(self._rng.uniform(0, 0.01))

    def sent_before(self, time_s: float) -> list[bytes]:
        """Everything that was sent before a time."""
        return [piece for at, piece in self.sent if at < time_s]


@pytest.mark.parametrize("seed", range(quick_or_thorough(2, 5)))
async def test_what_had_arrived_50_ms_before_a_kill_comes_back(tmp_path: Path, seed: int) -> None:
    """A recorder is killed at a random time during three streams; `recover` loses no old data."""
    rng = random.Random(seed)
    endless_provider = EndlessProvider(rng)
    async with upstream(endless_provider.script) as provider:
        upstream_options = ("--upstream", f"default={provider.url}", "--spool", "spool")
        async with running_server("record", *upstream_options, folder=tmp_path) as recorder:
            clients = [
                asyncio.ensure_future(send_request(recorder.url, raw_chat_request(str(i))))
                for i in range(3)
            ]
            await wait_until(lambda: len(endless_provider.sent) > 40)
            await asyncio.sleep(rng.uniform(0, 0.15))
            sent_until = asyncio.get_running_loop().time()
            await send_request(recorder.url, HEALTH)  # by its response, all that has been received
            await asyncio.sleep(0.05)
            await send_request(recorder.url, HEALTH)  # which it had 50 ms to write, if scheduled
            recorder.process.kill()
            await recorder.process.wait()
            await asyncio.gather(*clients)

    result = await run_recover(tmp_path)

    assert result.exit_code == 0
    assert (await run_command("verify", folder=tmp_path)).exit_code == 0
    recovered = b"".join(cassette.response_body for cassette in load_cassettes(tmp_path))
    old = endless_provider.sent_before(sent_until)
    assert len(old) > 3
    assert [piece for piece in old if piece not in recovered] == []
