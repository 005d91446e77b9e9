"""Import of every source file of the corpus: imported or refused with a reason, never a crash.

`tests/corpus_imports.json` holds the expected results.  A daily run leaves out the repositories
with most files.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from corpus import RAW, Row, rows
from in_process_proxy import proxy
from llm_proxy.importing import ImportedCassette, ImportSettings, RefusedItem
from llm_proxy.pacing import InstantPace
from llm_proxy.routing import RoutingSettings
from llm_proxy.shell.importing import (
    FileReport,
    ImportedExchange,
    Importer,
    assign_session_names,
    find_files,
)
from llm_proxy.shell.library.library import Library
from raw_http import build_http_request, send_request
from thoroughness import is_thorough, quick_or_thorough

pytestmark = pytest.mark.corpus

TABLE: Final = Path(__file__).with_name("corpus_imports.json")
"""By repository: results of its files and exchanges, refusal reasons, and losses."""

THOROUGH_REPOSITORIES: Final = frozenset(
    (
        "charmbracelet/fantasy",
        "crmne/ruby_llm",
        "posit-dev/chatlas",
        "pydantic/pydantic-ai",
        "traceloop/openllmetry",
    )
)
FILES: Final = quick_or_thorough(292, 864)
REPEATED_REQUESTS: Final = quick_or_thorough(28, 56)
"""The number of requests that occur more than once in one recording, byte for byte."""
MOST_REPEATS: Final = 13
"""The highest number of occurrences."""

PROVIDERS_BY_HOST: Final = {
    "api.openai.com": {"openai"},
    "api.anthropic.com": {"anthropic"},
    "bedrock-runtime.us-east-1.amazonaws.com": {"bedrock"},
    "generativelanguage.googleapis.com": {"gemini"},
    "api.cohere.com": {"cohere"},
} | quick_or_thorough(
    {},
    {
        "api.mistral.ai": {"mistral"},
        "api.deepseek.com": {"deepseek"},
        "api.groq.com": {"groq"},
    },
)

WITHOUT_REQUESTS: Final = frozenset(("body-only", "payload-lines"))
"""The fidelity of rows whose files hold no request."""


def is_chosen(repository: str) -> bool:
    """Whether this run imports the files of this repository."""
    return is_thorough() or repository not in THOROUGH_REPOSITORIES


def chosen_rows() -> list[Row]:
    """The rows of the chosen repositories."""
    return [row for row in rows() if is_chosen(row.repo)]


def chosen_files() -> list[Path]:
    """The source files of the chosen repositories."""
    return [path for path in find_files([RAW]) if is_chosen(repository_of(path))]


def repository_of(path: Path) -> str:
    """The repository of a source file."""
    return path.relative_to(RAW).parts[0].replace("+", "/")


def run_import(folder: Path, files: Iterable[Path], *, is_dry: bool) -> list[FileReport]:
    """Import these files, each with its own session, and return their reports."""
    library = Library(folder)
    library.refresh()
    settings = ImportSettings(RoutingSettings(), "llm-proxy", "2026-01-01T00:00:00.000Z")
    paths = list(files)
    return list(
        Importer(library, settings, assign_session_names(paths), is_dry).import_files(paths)
    )


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FileReport]:
    """The dry-run report of every chosen file, by path."""
    found = run_import(tmp_path_factory.mktemp("library"), chosen_files(), is_dry=True)
    return {str(item.path.relative_to(RAW)): item for item in found}


def source_path(row: Row) -> str:
    """The path of a row's source file."""
    return f"{row.repo.replace('/', '+')}/{row.path}"


def imported_cassette(reports: Mapping[str, FileReport], row: Row) -> ImportedCassette:
    """The cassette imported from a row's exchange."""
    results = reports[source_path(row)].results
    return next(
        result.cassette
        for result in results
        if isinstance(result, ImportedExchange) and result.number == row.index + 1
    )


def imported_body(cassette: ImportedCassette) -> bytes:
    """The imported body."""
    return b"".join(read.received_bytes for read in cassette.reads)


def result_table(reports: Mapping[str, FileReport]) -> dict[str, Any]:
    """The summary of all results, by repository."""
    by_repo: dict[str, list[FileReport]] = defaultdict(list)
    for name, report in reports.items():
        by_repo[name.partition("/")[0].replace("+", "/")].append(report)
    return {repo: dict(_summary(found)) for repo, found in sorted(by_repo.items())}


def _summary(found: Iterable[FileReport]) -> Iterator[tuple[str, Any]]:
    reports = list(found)
    refused = [
        result for report in reports for result in report.results if isinstance(result, RefusedItem)
    ]
    lost: Counter[str] = Counter()
    for report in reports:
        lost.update({loss.name: count for loss, count in report.loss_counts.items()})
    yield "formats", dict(Counter(report.format or "unknown" for report in reports))
    yield "files", dict(Counter(report.status for report in reports))
    yield "exchanges imported", sum(report.count_results(ImportedExchange) for report in reports)
    yield (
        "why not",
        dict(
            Counter(
                [report.reason for report in reports if report.reason]
                + [item.reason for item in refused]
            )
        ),
    )
    yield "lost", dict(sorted(lost.items()))


def test_every_file_is_imported_or_says_why_not(reports: Mapping[str, FileReport]) -> None:
    assert len(reports) == FILES
    expected = json.loads(TABLE.read_bytes())
    assert result_table(reports) == {
        repository: results for repository, results in expected.items() if is_chosen(repository)
    }


def test_every_exchange_of_the_corpus_with_a_request_is_imported(
    reports: Mapping[str, FileReport],
) -> None:
    wrong = [
        (row.id, cassette.head.status)
        for row in chosen_rows()
        if row.fidelity not in WITHOUT_REQUESTS
        and (cassette := imported_cassette(reports, row)).head.status != row.status
    ]
    assert wrong == []


REDACTED_BODIES: Final = {"aae2a86b1222d3c2": "google-project"}
"""Why a body is not imported byte for byte: the rule by which a part of it was replaced."""


def test_imported_bodies_are_those_of_the_corpus_byte_for_byte(
    reports: Mapping[str, FileReport],
) -> None:
    kept = [row for row in chosen_rows() if row.fidelity in ("exact", "edited-length-differs")]
    assert len(kept) == quick_or_thorough(332, 1145)
    assert [
        item.id for item in kept if imported_body(imported_cassette(reports, item)) != item.body
    ] == list(REDACTED_BODIES)


@pytest.mark.thorough
def test_bodies_that_were_kept_as_parsed_json_mean_the_same(
    reports: Mapping[str, FileReport],
) -> None:
    kept = [row for row in rows() if row.fidelity == "json-reserialised"]
    assert len(kept) == 178
    different = [
        item.id
        for item in kept
        if imported_body(imported_cassette(reports, item)) != item.body
        and orjson.loads(imported_body(imported_cassette(reports, item))) != orjson.loads(item.body)
    ]
    assert different == []


def test_requests_are_assigned_to_the_provider_of_their_host(
    reports: Mapping[str, FileReport],
) -> None:
    providers_by_host: dict[str, set[str]] = defaultdict(set)
    for row in chosen_rows():
        if row.fidelity not in WITHOUT_REQUESTS and (
            host := row.url.partition("://")[2].partition("/")[0]
        ):
            providers_by_host[host].add(imported_cassette(reports, row).meta.provider)
    assert {host: providers_by_host[host] for host in PROVIDERS_BY_HOST} == PROVIDERS_BY_HOST


async def test_byte_identical_requests_of_one_file_are_replayed_in_their_order(
    tmp_path: Path,
) -> None:
    groups: Counter[tuple[str, str, str, bytes]] = Counter()
    for row in chosen_rows():
        if row.request_body and row.fidelity not in WITHOUT_REQUESTS:
            groups[source_path(row), row.method, row.url, row.request_body] += 1
    repeated = {request_id: count for request_id, count in groups.items() if count > 1}
    assert (len(repeated), max(repeated.values())) == (REPEATED_REQUESTS, MOST_REPEATS)

    files = sorted({RAW / name for name, *_ in repeated})
    reports = run_import(tmp_path / "cassettes", files, is_dry=False)

    # Replay whole files: some repeat a request in different bytes with the same meaning.
    wrong: list[tuple[str, int, int]] = []
    async with proxy("replay", tmp_path, pace=InstantPace(), after_last="fail") as replay_proxy:
        for report in reports:
            for result in report.results:
                assert isinstance(result, ImportedExchange)
                answer = await send_request(
                    replay_proxy.url, replay_request(result.cassette, report.session)
                )
                if answer.body != imported_body(result.cassette):
                    wrong.append((report.path.name, result.number, answer.status))
    assert wrong == []


def replay_request(cassette: ImportedCassette, session: str) -> bytes:
    """The request of a cassette, addressed to its file's session and its provider."""
    request = cassette.request
    headers = [f"{name}: {value}" for name, value in request.headers if name != "content-encoding"]
    target = f"/@{session}/~{cassette.meta.provider}{request.path}" + (
        f"?{request.query}" if request.query else ""
    )
    return build_http_request(target, request.body, *headers, method=request.method)
