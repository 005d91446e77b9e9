"""Every file that the corpus was made of: imported, or refused with a reason, and never a crash.

`tests/corpus_imports.json` is the table of what becomes of them.
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
from llm_proxy.shell.importing.files import find_files, session_names
from llm_proxy.shell.importing.importer import FileReport, ImportedExchange, Importer
from llm_proxy.shell.library.library import Library
from raw_http import ask, post

pytestmark = pytest.mark.corpus

TABLE: Final = Path(__file__).with_name("corpus_imports.json")
"""By repository: what its files and their exchanges came to, why not, and what they do not hold."""

FILES: Final = 864
GROUPS: Final = 56
"""Requests that one recording file holds more than once, byte for byte."""
LONGEST: Final = 13
"""How often, at most."""

ALONE: Final = frozenset(("body-only", "payload-lines"))
"""The fidelity of rows whose files hold no request."""


def imported(library: Path, files: Iterable[Path], *, is_dry: bool) -> list[FileReport]:
    """What becomes of these files, each with a session of its own."""
    shelf = Library(library)
    shelf.refresh()
    how = ImportSettings(RoutingSettings(), "llm-proxy", "2026-01-01T00:00:00.000Z")
    chosen = list(files)
    return list(Importer(shelf, how, session_names(chosen), is_dry).run(chosen))


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FileReport]:
    """What would become of every file, by its path."""
    found = imported(tmp_path_factory.mktemp("library"), find_files([RAW]), is_dry=True)
    return {str(item.path.relative_to(RAW)): item for item in found}


def name_of(row: Row) -> str:
    """The path of the file that a row was taken from."""
    return f"{row.repo.replace('/', '+')}/{row.path}"


def made(reports: Mapping[str, FileReport], row: Row) -> ImportedCassette:
    """What a row's exchange became."""
    results = reports[name_of(row)].results
    return next(
        result.cassette
        for result in results
        if isinstance(result, ImportedExchange) and result.number == row.index + 1
    )


def told(made: ImportedCassette) -> bytes:
    """The imported body."""
    return b"".join(read.data for read in made.timed_body.reads)


def table(reports: Mapping[str, FileReport]) -> dict[str, Any]:
    """What became of everything, by repository."""
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
    for it in reports:
        lost.update({loss.name: count for loss, count in it.losses.items()})
    yield "formats", dict(Counter(report.format or "unknown" for report in reports))
    yield "files", dict(Counter(report.status for report in reports))
    yield "exchanges imported", sum(report.count(ImportedExchange) for report in reports)
    yield (
        "why not",
        dict(
            Counter(
                [report.why for report in reports if report.why] + [item.reason for item in refused]
            )
        ),
    )
    yield "lost", dict(sorted(lost.items()))


def test_every_file_is_imported_or_says_why_not(reports: Mapping[str, FileReport]) -> None:
    assert len(reports) == FILES
    assert table(reports) == json.loads(TABLE.read_bytes())


def test_every_exchange_of_the_corpus_with_a_request_is_imported(
    reports: Mapping[str, FileReport],
) -> None:
    wrong = [
        (row.id, it.head.response.status)
        for row in rows()
        if row.fidelity not in ALONE
        and (it := made(reports, row)).head.response.status != row.status
    ]
    assert wrong == []


def test_imported_bodies_are_those_of_the_corpus_byte_for_byte(
    reports: Mapping[str, FileReport],
) -> None:
    kept = [row for row in rows() if row.fidelity in ("exact", "edited-length-differs")]
    assert len(kept) == 1145
    assert [item.id for item in kept if told(made(reports, item)) != item.body] == []


def test_bodies_that_were_kept_as_parsed_json_mean_the_same(
    reports: Mapping[str, FileReport],
) -> None:
    kept = [row for row in rows() if row.fidelity == "json-reserialised"]
    assert len(kept) == 178
    different = [
        item.id
        for item in kept
        if told(made(reports, item)) != item.body
        and orjson.loads(told(made(reports, item))) != orjson.loads(item.body)
    ]
    assert different == []


def test_requests_are_asked_at_the_provider_that_they_were_asked_at(
    reports: Mapping[str, FileReport],
) -> None:
    asked: dict[str, set[str]] = defaultdict(set)
    for it in rows():
        if it.fidelity not in ALONE and (host := it.url.partition("://")[2].partition("/")[0]):
            asked[host].add(made(reports, it).meta.provider)
    hosts = ("api.openai.com", "api.anthropic.com", "api.mistral.ai", "api.deepseek.com")
    assert [asked[item] for item in hosts] == [{"openai"}, {"anthropic"}, {"mistral"}, {"deepseek"}]
    assert asked["bedrock-runtime.us-east-1.amazonaws.com"] == {"bedrock"}
    assert asked["api.groq.com"] == {"groq"}


async def test_byte_identical_requests_of_one_file_are_replayed_in_their_order(
    tmp_path: Path,
) -> None:
    groups: Counter[tuple[str, str, str, bytes]] = Counter()
    for row in rows():
        if row.request_body and row.fidelity not in ALONE:
            groups[name_of(row), row.method, row.url, row.request_body] += 1
    repeated = {it: count for it, count in groups.items() if count > 1}
    assert (len(repeated), max(repeated.values())) == (GROUPS, LONGEST)

    files = sorted({RAW / name for name, *_ in repeated})
    reports = imported(tmp_path / "cassettes", files, is_dry=False)

    # All of a file: some repeat a request of it in other bytes of the same meaning.
    wrong: list[tuple[str, int, int]] = []
    async with proxy("replay", tmp_path, pace=InstantPace(), after_last="fail") as replaying:
        for report in reports:
            for it in report.results:
                assert isinstance(it, ImportedExchange)
                answer = await ask(replaying.url, question(it.cassette, report.session))
                if answer.body != told(it.cassette):
                    wrong.append((report.path.name, it.number, answer.status))
    assert wrong == []


def question(made: ImportedCassette, session: str) -> bytes:
    """The request of an exchange, for its file's session and its provider."""
    it = made.request
    headers = [f"{name}: {value}" for name, value in it.headers if name != "content-encoding"]
    target = f"/@{session}/~{made.meta.provider}{it.path}" + (f"?{it.query}" if it.query else "")
    return post(target, it.body, *headers, method=it.method)
