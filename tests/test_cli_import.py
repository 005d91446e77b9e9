"""`llm-proxy import`: other tools' recordings become cassettes, and what does not is named."""

from __future__ import annotations

import json
from pathlib import Path

from cli_process import Ran, run
from in_process_proxy import cassettes, proxy
from llm_proxy.pacing import InstantPace
from llm_proxy.shell.importing.files import session_names
from llm_proxy.shell.library.library import Library
from raw_http import ask, post
from test_importing_formats import ASKED, STREAM, VCR, flow, har

QUESTION = post("/v1/chat/completions?beta=1", ASKED.encode(), "Content-Type: application/json")


def answered(text: str) -> str:
    """A cassette of VCR.py with another answer to the same request."""
    return VCR.replace('{\\"a\\":1}', f'{{\\"a\\":\\"{text}\\"}}')


def twice(first: str, second: str) -> str:
    """One with two answers to the same request."""
    _, _, more = answered(second).partition("\n")
    return answered(first).replace("version: 1\n", "") + more


async def imported(folder: Path, *arguments: str) -> Ran:
    return await run("import", *arguments, folder=folder)


def takes(folder: Path) -> list[str]:
    """The takes of a library, below it."""
    root = folder / "cassettes"
    return [str(path.relative_to(root)) for path in sorted(root.rglob("*.jsonl"))]


async def test_what_was_imported_is_replayed(tmp_path: Path) -> None:
    (tmp_path / "vcr.yaml").write_text(VCR)

    ran = await imported(tmp_path, "vcr.yaml")

    assert ran.code == 0
    assert "1 exchange of 1 file imported into cassettes" in ran.err
    async with proxy("replay", tmp_path, pace=InstantPace()) as replaying:
        answer = await ask(replaying.url, QUESTION)
    assert (answer.status, answer.body) == (200, STREAM.encode())


async def test_repeats_become_takes_in_the_order_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "vcr.yaml").write_text(twice("one", "two"))
    await imported(tmp_path, "vcr.yaml")

    async with proxy("replay", tmp_path, pace=InstantPace()) as replaying:
        got = [(await ask(replaying.url, QUESTION)).body for _ in range(2)]

    assert [b"one" in got[0], b"two" in got[1]] == [True, True]


async def test_what_is_there_before_stays_and_nothing_is_imported_twice(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(twice("one", "one"))
    (tmp_path / "b.yaml").write_text(answered("two"))
    await imported(tmp_path, "a.yaml")
    before = {cassette.file: cassette for cassette in cassettes(tmp_path)}

    again = await imported(tmp_path, "a.yaml", "b.yaml", "--json")

    sums = json.loads(again.out)["sum"]["exchanges"]
    assert sums == {"imported": 1, "there before": 2, "refused": 0}
    after = {cassette.file: cassette for cassette in cassettes(tmp_path)}
    assert len(before) == 2
    assert before.items() <= after.items()
    [new] = after.keys() - before.keys()
    assert new.endswith("-3.jsonl")
    assert b"two" in after[new].body


async def test_each_file_may_have_a_session_of_its_own(tmp_path: Path) -> None:
    for name in ("a/test chat.yaml", "b/test chat.yaml", "b/other.yaml"):
        path = tmp_path / "kept" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(answered(name))

    ran = await imported(tmp_path, "kept", "--session-per-file", "--json")

    said = [file["session"] for file in json.loads(ran.out)["files"]]
    assert [item.rpartition("kept-")[2] for item in said] == ["a-test-chat", "other", "b-test-chat"]
    assert {take.partition("/")[0] for take in takes(tmp_path)} == {f"@{item}" for item in said}


def test_sessions_that_folders_do_not_tell_apart_get_numbers() -> None:
    paths = [Path(f"/{root}/x/y/z/Test.yaml") for root in ("a", "b")] + [Path("/c/test.json")]
    assert list(session_names(paths).values()) == ["x-y-z-Test", "x-y-z-Test-2", "c-test"]


async def test_a_dry_run_says_what_would_be_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "vcr.yaml").write_text(VCR)

    ran = await imported(tmp_path, "vcr.yaml", "--dry-run")

    assert ran.code == 0
    assert "1 exchange of 1 file would be imported" in ran.err
    assert not (tmp_path / "cassettes").exists()


async def test_a_model_of_any_name_is_imported(tmp_path: Path) -> None:
    (tmp_path / "vcr.yaml").write_text(VCR.replace("gpt-4o", r"a\u001bb"))

    ran = await imported(tmp_path, "vcr.yaml")

    assert ran.code == 0
    assert "1 exchange of 1 file imported into cassettes" in ran.err
    assert (await run("verify", folder=tmp_path)).code == 0


async def test_what_is_refused_is_named_with_its_place_and_fails(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / "flows").write_bytes(flow() + flow(type="tcp"))
    (folder / "notes.md").write_text("# Notes\n")
    (folder / "torn.yaml").write_text("version: 1\ninteractions: ['\n")
    (folder / ".hidden").write_text("x")

    ran = await imported(tmp_path, "kept")

    assert ran.code == 1
    refused = [line for line in ran.out.splitlines() if ": " in line]
    assert refused[0] == "kept/flows, exchange 2: it is a flow of tcp, not of HTTP"
    assert refused[1].startswith("kept/notes.md: it is no recording of a kind that is known")
    assert refused[2].startswith("kept/torn.yaml: line 3: it is no valid YAML")
    assert "1 exchange of 3 files imported into cassettes, 1 exchange refused" in ran.err
    assert len(takes(tmp_path)) == 1


async def test_what_a_source_does_not_hold_is_said_file_by_file_and_in_sum(tmp_path: Path) -> None:
    (tmp_path / "a.har").write_bytes(har())
    (tmp_path / "b.yaml").write_text(VCR)

    told = json.loads((await imported(tmp_path, "a.har", "b.yaml", "--dry-run", "--json")).out)

    assert [file["lost"] for file in told["files"]] == [{"times of pieces": 1}, {"times": 1}]
    assert {name: it["exchanges"] for name, it in told["sum"]["lost"].items()} == {
        "times of pieces": 1,
        "times": 1,
    }


async def test_an_answer_that_is_not_complete_is_imported_and_said_to_be_so(
    tmp_path: Path,
) -> None:
    (tmp_path / "vcr.yaml").write_text(VCR.replace("data: [DONE]\\n\\n", ""))

    ran = await imported(tmp_path, "vcr.yaml")

    assert "completeness, of 1 exchange: an answer is not complete" in ran.err
    assert len(takes(tmp_path)) == 1


async def test_a_pace_gives_times_to_answers_without_any(tmp_path: Path) -> None:
    (tmp_path / "vcr.yaml").write_text(VCR)

    await imported(tmp_path, "vcr.yaml", "--pace", "ttft=300ms")

    [it] = cassettes(tmp_path)
    assert (it.head_at_ms, it.end.at_ms) == (300.0, 300.0)
    assert it.meta.tool.endswith(", imported from vcr, its times made up by ttft=300ms")


async def test_mistakes_on_the_command_line_are_said_before_anything_is_written(
    tmp_path: Path,
) -> None:
    (tmp_path / "vcr.yaml").write_text(VCR)
    said = {
        arguments: (await imported(tmp_path, *arguments)).complaint
        for arguments in (
            ("none.yaml",),
            ("vcr.yaml", "--session", "a", "--session-per-file"),
            ("vcr.yaml", "--pace", "recorded"),
            ("vcr.yaml", "--provider", "a b"),
        )
    }
    name = "use letters, digits, dot, dash and underscore, at most 100 of them"
    pace = "write instant, a rate such as 50tps, or a model such as profile:gpt-4o"
    assert list(said.values()) == [
        "llm-proxy: none.yaml is not there: name the files and folders to import",
        "llm-proxy: --session-per-file and --session NAME: give one of them",
        f"llm-proxy: --pace: 'recorded' needs recorded times: {pace}",
        f"llm-proxy: --provider: 'a b' is no provider name: {name}",
    ]
    assert not (tmp_path / "cassettes").exists()


async def test_an_imported_library_is_whole(tmp_path: Path) -> None:
    (tmp_path / "vcr.yaml").write_text(twice("one", "two"))
    (tmp_path / "a.har").write_bytes(har())
    await imported(tmp_path, "vcr.yaml", "a.har", "--session", "mine")

    ran = await run("verify", folder=tmp_path)

    assert ran.code == 0
    assert "3 cassettes checked" in ran.err
    library = Library(tmp_path / "cassettes")
    library.refresh()
    assert {library.load_cassette(file).meta.session for file in library.files()} == {"mine"}
