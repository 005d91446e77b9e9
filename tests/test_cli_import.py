"""`llm-proxy import`: converts the recordings of other tools, and reports what it cannot."""

from __future__ import annotations

import json
from pathlib import Path

from cli_process import CommandResult, run_command
from in_process_proxy import load_cassettes, proxy
from llm_proxy.importing import ImportSettings
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.pacing import InstantPace
from llm_proxy.routing import RoutingSettings
from llm_proxy.shell.importing import Importer, assign_session_names
from llm_proxy.shell.library.library import Library
from raw_http import build_http_request, send_request
from test_importing_formats import REQUEST_BODY, STREAM, VCR, flow, har

CHAT_REQUEST = build_http_request(
    "/v1/chat/completions?beta=1", REQUEST_BODY.encode(), "Content-Type: application/json"
)


def vcr_with_text(text: str) -> str:
    """A VCR.py cassette with another response to the same request."""
    return VCR.replace('{\\"a\\":1}', f'{{\\"a\\":\\"{text}\\"}}')


def vcr_with_two_responses(first: str, second: str) -> str:
    """A VCR.py cassette with two responses to the same request."""
    _, _, second_interaction = vcr_with_text(second).partition("\n")
    return vcr_with_text(first).replace("version: 1\n", "") + second_interaction


async def run_import(folder: Path, *arguments: str) -> CommandResult:
    return await run_command("import", *arguments, folder=folder)


def take_paths(folder: Path) -> list[str]:
    """The paths of the takes, relative to the library."""
    root = folder / "cassettes"
    return [str(path.relative_to(root)) for path in sorted(root.rglob("*.jsonl"))]


async def test_what_was_imported_is_replayed(tmp_path: Path) -> None:
    (tmp_path / "vcr.yaml").write_text(VCR)

    result = await run_import(tmp_path, "vcr.yaml")

    assert result.exit_code == 0
    assert "1 exchange from 1 file imported into ./cassettes" in result.stderr
    async with proxy("replay", tmp_path, pace=InstantPace()) as replaying:
        response = await send_request(replaying.url, CHAT_REQUEST)
    assert (response.status, response.body) == (200, STREAM.encode())


def test_imports_at_the_same_time_give_no_two_takes_of_a_request_one_number(tmp_path: Path) -> None:
    root = tmp_path / "cassettes"
    routing = RoutingSettings(match_rules=parse_rules(["ignore=$.model"]))
    settings = ImportSettings(routing, "llm-proxy 1", "2026-01-01T00:00:00.000Z")
    importers = [Importer(Library(root), settings) for _ in range(2)]
    for importer, model in zip(importers, ("gpt-4o", "gpt-5"), strict=True):
        path = tmp_path / f"{model}.yaml"
        path.write_text(vcr_with_two_responses("one", "two").replace("gpt-4o", model))
        [report] = importer.import_files([path])
        assert report.status == "imported"

    assert [path.rpartition("-")[2] for path in take_paths(tmp_path)] == [
        "1.jsonl",
        "2.jsonl",
        "3.jsonl",
        "4.jsonl",
    ]
    Library(root).refresh()


async def test_repeats_become_takes_in_the_order_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "vcr.yaml").write_text(vcr_with_two_responses("one", "two"))
    await run_import(tmp_path, "vcr.yaml")

    async with proxy("replay", tmp_path, pace=InstantPace()) as replaying:
        received = [(await send_request(replaying.url, CHAT_REQUEST)).body for _ in range(2)]

    assert [b"one" in received[0], b"two" in received[1]] == [True, True]


async def test_what_is_there_before_stays_and_nothing_is_imported_twice(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(vcr_with_two_responses("one", "one"))
    (tmp_path / "b.yaml").write_text(vcr_with_text("two"))
    await run_import(tmp_path, "a.yaml")
    before = {cassette.file: cassette for cassette in load_cassettes(tmp_path)}

    again = await run_import(tmp_path, "a.yaml", "b.yaml", "--json")

    sums = json.loads(again.stdout)["sum"]["exchanges"]
    assert sums == {"imported": 1, "already_imported": 2, "refused": 0}
    after = {cassette.file: cassette for cassette in load_cassettes(tmp_path)}
    assert len(before) == 2
    assert before.items() <= after.items()
    [new] = after.keys() - before.keys()
    assert new.endswith("-3.jsonl")
    assert b"two" in after[new].response_body


async def test_each_file_may_have_a_session_of_its_own(tmp_path: Path) -> None:
    for name in ("a/test chat.yaml", "b/test chat.yaml", "b/other.yaml"):
        path = tmp_path / "kept" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(vcr_with_text(name))

    result = await run_import(tmp_path, "kept", "--session-per-file", "--json")

    sessions = [file["session"] for file in json.loads(result.stdout)["files"]]
    assert [session.rpartition("kept-")[2] for session in sessions] == [
        "a-test-chat",
        "other",
        "b-test-chat",
    ]
    assert {take.partition("/")[0] for take in take_paths(tmp_path)} == {
        f"@{session}" for session in sessions
    }


def test_sessions_that_folders_do_not_tell_apart_get_numbers() -> None:
    paths = [Path(f"/{root}/x/y/z/Test.yaml") for root in ("a", "b")] + [Path("/c/test.json")]
    assert list(assign_session_names(paths).values()) == ["x-y-z-Test", "x-y-z-Test-2", "c-test"]


async def test_a_dry_run_says_what_would_be_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "vcr.yaml").write_text(VCR)

    result = await run_import(tmp_path, "vcr.yaml", "--dry-run")

    assert result.exit_code == 0
    assert "would import 1 exchange from 1 file into ./cassettes" in result.stderr
    assert not (tmp_path / "cassettes").exists()


async def test_a_model_of_any_name_is_imported(tmp_path: Path) -> None:
    (tmp_path / "vcr.yaml").write_text(VCR.replace("gpt-4o", r"a\u001bb"))

    result = await run_import(tmp_path, "vcr.yaml")

    assert result.exit_code == 0
    assert "1 exchange from 1 file imported into ./cassettes" in result.stderr
    assert (await run_command("verify", folder=tmp_path)).exit_code == 0


async def test_what_is_refused_is_named_with_its_place_and_fails(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    (folder / "flows").write_bytes(flow() + flow(type="tcp"))
    (folder / "notes.md").write_text("# Notes\n")
    (folder / "torn.yaml").write_text("version: 1\ninteractions: ['\n")
    (folder / ".hidden").write_text("x")

    result = await run_import(tmp_path, "kept")

    assert result.exit_code == 1
    refused = [line for line in result.stdout.splitlines() if ": " in line]
    assert (
        refused[0]
        == "kept/flows, exchange 2: unsupported flow type 'tcp'; only HTTP flows can be imported"
    )
    assert refused[1].startswith("kept/notes.md: unknown format; supported: ")
    assert refused[2].startswith("kept/torn.yaml: line 3: invalid YAML")
    assert "1 exchange from 3 files imported into ./cassettes, 1 exchange refused" in result.stderr
    assert len(take_paths(tmp_path)) == 1


async def test_what_a_source_lacks_is_reported_by_file_and_in_total(tmp_path: Path) -> None:
    (tmp_path / "a.har").write_bytes(har())
    (tmp_path / "b.yaml").write_text(VCR)

    document = json.loads(
        (await run_import(tmp_path, "a.har", "b.yaml", "--dry-run", "--json")).stdout
    )

    assert [file["lost"] for file in document["files"]] == [{"read times": 1}, {"times": 1}]
    assert {name: loss["exchanges"] for name, loss in document["sum"]["lost"].items()} == {
        "read times": 1,
        "times": 1,
    }


async def test_an_incomplete_response_is_imported_and_reported(
    tmp_path: Path,
) -> None:
    (tmp_path / "vcr.yaml").write_text(VCR.replace("data: [DONE]\\n\\n", ""))

    result = await run_import(tmp_path, "vcr.yaml")

    assert "completeness (1 exchange): a response is incomplete" in result.stderr
    assert len(take_paths(tmp_path)) == 1


async def test_a_pace_gives_times_to_responses_without_any(tmp_path: Path) -> None:
    (tmp_path / "vcr.yaml").write_text(VCR)

    await run_import(tmp_path, "vcr.yaml", "--pace", "ttft=300ms")

    [cassette] = load_cassettes(tmp_path)
    assert (cassette.response_head_at_ms, cassette.response_end.at_ms) == (300.0, 300.0)
    assert cassette.meta.recording_tool.endswith(
        ", imported from vcr, with generated times (ttft=300ms)"
    )


async def test_mistakes_on_the_command_line_are_reported_before_anything_is_written(
    tmp_path: Path,
) -> None:
    (tmp_path / "vcr.yaml").write_text(VCR)
    messages = {
        arguments: (await run_import(tmp_path, *arguments)).last_error_line
        for arguments in (
            ("none.yaml",),
            ("vcr.yaml", "--session", "a", "--session-per-file"),
            ("vcr.yaml", "--pace", "recorded"),
            ("vcr.yaml", "--provider", "a b"),
        )
    }
    name = "use letters, digits, '.', '-' and '_', at most 100 characters"
    pace = "use instant, a rate such as 50tps, or a model such as profile:gpt-4o"
    assert list(messages.values()) == [
        "llm-proxy: error: no such file or folder: none.yaml",
        "llm-proxy: error: set either --session-per-file or --session NAME, not both",
        f"llm-proxy: error: --pace: 'recorded' needs recorded times; for an import, {pace}",
        f"llm-proxy: error: --provider: 'a b' is not a valid provider name; {name}",
    ]
    assert not (tmp_path / "cassettes").exists()


async def test_an_imported_library_is_whole(tmp_path: Path) -> None:
    (tmp_path / "vcr.yaml").write_text(vcr_with_two_responses("one", "two"))
    (tmp_path / "a.har").write_bytes(har())
    await run_import(tmp_path, "vcr.yaml", "a.har", "--session", "mine")

    result = await run_command("verify", folder=tmp_path)

    assert result.exit_code == 0
    assert "3 cassettes checked" in result.stderr
    library = Library(tmp_path / "cassettes")
    library.refresh()
    assert {library.load_cassette(file).meta.session for file in library.cassette_paths()} == {
        "mine"
    }
