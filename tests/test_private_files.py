"""Recordings are their owner's alone, whatever the umask; `--shared-library` shares the library.

The umask is set in child processes only.
"""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from case_tables import each_row
from cli_process import CommandResult, environment, run_command
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.shell.library import rekeying
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.private_files import make_private_folder, private_opener, replace_file
from spool_files import EVENTS, encode_body, encode_opening, write_spool
from stored_cassettes import raw_chat_request, response_bodies, text_response, write_cassettes
from stub_upstream import chunked, upstream
from test_importing_formats import VCR

IN_PROCESS: Final = """
import asyncio, sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from llm_proxy.shell.demo import load_script, run_provider, send_request
from llm_proxy.shell.library.last_played import mark_played
from llm_proxy.shell.recording.spooling import SpoolFile
from llm_proxy.shell.running.proxy import run_proxy
from llm_proxy.shell.running.settings import Settings

async def record():
    script = load_script()
    async with run_provider(tuple(replace(read, at_ms=0.0) for read in script.reads)) as address:
        settings = Settings(
            Path("in-process/cassettes"),
            Path("in-process/spool"),
            port=0,
            upstreams={"default": f"http://{address}"},
            shared_library=bool(sys.argv[1:]),
        )
        async with run_proxy("auto", settings) as proxy:
            await send_request(proxy.url, script.request, lambda _: None)

asyncio.run(record())
SpoolFile(Path("in-process/spool"), "1-1.spool").close_and_keep()
mark_played(Path("in-process/state"), Path("in-process/cassettes"), ["a"], datetime.now(UTC))
"""
CLIENT: Final = """
import os, sys, urllib.error, urllib.request
url = os.environ["LLM_PROXY_URL"] + "/v1/chat/completions"
body = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}'
try:
    urllib.request.urlopen(urllib.request.Request(url, body))
except urllib.error.HTTPError:
    pass
"""
FIXTURES: Final = {"fixtures": [{"match": {"userMessage": "hi"}, "response": {"content": "Hello"}}]}


def run_in_process(folder: Path, umask: int, *arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-c", IN_PROCESS, *arguments],
        cwd=folder,
        env=environment(folder),
        umask=umask,
        check=True,
    )


async def run_with_umask(folder: Path, umask: int, *arguments: str, **env: str) -> CommandResult:
    preparation = f"import os\nos.umask({umask})"
    return await run_command(*arguments, folder=folder, env=env, preparation=preparation)


def unexpected_modes(*paths: Path, files: int = 0o600, folders: int = 0o700) -> dict[str, str]:
    """The modes, of these and all that is below them, that are not as expected."""
    found = {item: mode(item) for path in paths for item in (path, *path.rglob("*"))}
    return {
        str(item): oct(found_mode)
        for item, found_mode in found.items()
        if found_mode != (folders if item.is_dir() else files)
    }


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


UMASKS: Final = [
    pytest.param(0o000, False, 0o600, 0o700, id="umask 000"),
    pytest.param(0o022, False, 0o600, 0o700, id="umask 022"),
    pytest.param(0o077, False, 0o600, 0o700, id="umask 077"),
    pytest.param(0o022, True, 0o644, 0o755, id="umask 022, shared"),
    pytest.param(0o007, True, 0o660, 0o770, id="umask 007, shared"),
]


@each_row("umask, shared, files, folders", UMASKS)
async def test_commands_create_private_files(
    tmp_path: Path, umask: int, shared: bool, files: int, folders: int
) -> None:
    folder, inputs = tmp_path / f"{umask}-{shared}", tmp_path / f"{umask}-{shared}-inputs"
    folder.mkdir()
    inputs.mkdir()
    (inputs / "vcr.yaml").write_text(VCR)
    (inputs / "fixtures.json").write_text(json.dumps(FIXTURES))
    (inputs / "client.py").write_text(CLIENT)
    spool = write_spool(inputs, encode_opening(folder / "recovered") + encode_body(*EVENTS))
    option = ["--shared-library"] if shared else []
    answer = chunked(response_bodies([text_response("Hello")]))

    async with upstream(answer, answer) as provider:
        results = [
            await run_with_umask(folder, umask, *arguments, **env)
            for arguments, env in (
                (
                    ("record", "--cassettes", "recorded/cassettes", "--upstream",
                     f"default={provider.url}", "--journal", "record.json", *option,
                     "--", "python", str(inputs / "client.py")),
                    {},
                ),
                (
                    ("replay", "--cassettes", "recorded/cassettes",
                     "--", "python", str(inputs / "client.py")),
                    {},
                ),
                (
                    ("replay", "--cassettes", "none", "--journal", "replay.json",
                     "--", "python", str(inputs / "client.py")),
                    {"GITHUB_STEP_SUMMARY": str(folder / "summary.md")},
                ),
                (("import", str(inputs / "vcr.yaml"), "--cassettes", "imported", *option), {}),
                (
                    ("import", str(inputs / "fixtures.json"), "--scenarios", "scenarios", *option),
                    {},
                ),
                (
                    ("recover", "--cassettes", "recovered/cassettes", "--spool",
                     str(spool.parent), *option),
                    {},
                ),
                (("rerecord", "--all", "--cassettes", "recorded/cassettes", "--upstream",
                  f"default={provider.url}", *option), {}),
                (("export", "openai-chat", "--cassettes", "recovered/cassettes", "--format", "har",
                  "--output", "exported.har"), {}),
            )
        ]  # fmt: skip
    library = [folder / name for name in ("recorded", "recovered", "imported", "scenarios")]
    own_names = ("state", "record.json", "replay.json", "summary.md", "exported.har")
    own = [folder / name for name in own_names]

    assert [result.stderr for result in results if result.exit_code] == []
    assert set(folder.iterdir()) == {*library, *own}
    assert all(list(path.rglob("*.*")) for path in library)
    assert list((folder / "state").rglob("spool"))
    assert list((folder / "state").rglob("played/*.json"))
    assert unexpected_modes(*library, files=files, folders=folders) == {}
    assert unexpected_modes(*own) == {}


@each_row(
    "umask, shared, files, folders",
    [*UMASKS, pytest.param(0o777, False, 0o600, 0o700, id="umask 777")],
)
def test_a_server_in_a_users_process_creates_private_files(
    tmp_path: Path, umask: int, shared: bool, files: int, folders: int
) -> None:
    folder = tmp_path / f"{umask}-{shared}"
    folder.mkdir()

    run_in_process(folder, umask, *(["shared"] if shared else []))

    library = folder / "in-process" / "cassettes"
    own = [library.with_name("spool"), library.with_name("state")]
    assert list(library.rglob("*.jsonl"))
    assert [path.name for path in own[0].iterdir()] == ["1-1.spool"]
    assert list(own[1].rglob("*.json"))
    assert unexpected_modes(library, files=files, folders=folders) == {}
    assert unexpected_modes(*own) == {}


@each_row("source", ["flag", "environment", "settings file"])
async def test_the_library_can_be_shared_by_each_source_of_settings(
    tmp_path: Path, source: str
) -> None:
    folder = tmp_path / source
    folder.mkdir()
    (folder / "vcr.yaml").write_text(VCR)
    if source == "settings file":
        (folder / "llm-proxy.toml").write_text("shared_library = true\n")
    env = {"LLM_PROXY_SHARED_LIBRARY": "true"} if source == "environment" else {}
    option = ["--shared-library"] if source == "flag" else []

    await run_with_umask(folder, 0o027, "import", "vcr.yaml", *option, **env)

    library = folder / "cassettes"
    assert list(library.rglob("*.jsonl"))
    assert unexpected_modes(library, files=0o640, folders=0o750) == {}


async def test_existing_files_and_folders_keep_their_modes(tmp_path: Path) -> None:
    """But a new take that replaces an older one is a new file."""
    [path] = write_cassettes(tmp_path, raw_chat_request(), text_response("old"))
    folders = (path.parent, path.parent.parent, tmp_path / "cassettes")
    for folder in folders:
        folder.chmod(0o2775)
    reports = (tmp_path / "run.json", tmp_path / "summary.md")
    for report in reports:
        report.touch()
        report.chmod(0o664)
    (tmp_path / "client.py").write_text(CLIENT)
    client = ("--", "python", "client.py")
    env = {"GITHUB_STEP_SUMMARY": "summary.md"}

    async with upstream(chunked(response_bodies([text_response("new")]))) as provider:
        await run_command(
            "record", "--upstream", f"default={provider.url}", *client, folder=tmp_path
        )
    await run_command(
        "replay", "--cassettes", "none", "--journal", "run.json", *client, folder=tmp_path, env=env
    )

    assert b"new" in path.read_bytes()
    assert all(report.read_bytes() for report in reports)
    assert [mode(item) for item in (*folders, *reports)] == [0o2775] * 3 + [0o664] * 2
    assert mode(path) == 0o600


def test_rekey_keeps_the_mode_of_a_cassette(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new file is private until it is complete."""
    uuid = "0f8fad5b-d9cb-469f-a165-70867728950e"
    [path] = write_cassettes(tmp_path, raw_chat_request(uuid), text_response("1"))
    path.chmod(0o640)
    library = Library(tmp_path / "cassettes")
    library.refresh()
    temporary_modes: list[int] = []
    monkeypatch.setattr(
        "os.fsync", lambda _: temporary_modes.extend(map(mode, tmp_path.rglob("*.tmp")))
    )

    [change] = rekeying.apply_changes(
        rekeying.plan_rekey(library, parse_rules(["uuids"]), [path]).changes
    )

    assert change.target != path
    assert temporary_modes == [0o600]
    assert mode(change.target) == 0o640


def test_a_private_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_private_folder(tmp_path / "file")


def test_a_private_file_is_not_created_twice(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"theirs")
    with pytest.raises(FileExistsError):
        open(path, "xb", opener=private_opener).close()
    assert path.read_bytes() == b"theirs"


def test_a_file_that_cannot_be_replaced_leaves_no_other(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        replace_file(tmp_path / "folder", b"")
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]
