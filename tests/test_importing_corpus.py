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
from llm_proxy.importing import How, Made, Refused
from llm_proxy.pacing import Instant
from llm_proxy.routing import Routing
from llm_proxy.shell.importing.files import sessions, survey
from llm_proxy.shell.importing.importing import Imported, Importer, Report
from llm_proxy.shell.library.library import Library
from proxying import proxy
from raw import ask, post

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


def imported(library: Path, files: Iterable[Path], *, is_dry: bool) -> list[Report]:
    """What becomes of these files, each with a session of its own."""
    shelf = Library(library)
    shelf.refresh()
    how = How(Routing(), "llm-proxy", "2026-01-01T00:00:00.000Z")
    chosen = list(files)
    return list(Importer(shelf, how, sessions(chosen), is_dry).run(chosen))


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    """What would become of every file, by its path."""
    found = imported(tmp_path_factory.mktemp("library"), survey([RAW]), is_dry=True)
    return {str(it.path.relative_to(RAW)): it for it in found}


def name_of(row: Row) -> str:
    """The path of the file that a row was taken from."""
    return f"{row.repo.replace('/', '+')}/{row.path}"


def made(reports: Mapping[str, Report], row: Row) -> Made:
    """What a row's exchange became."""
    results = reports[name_of(row)].results
    return next(
        it.made for it in results if isinstance(it, Imported) and it.number == row.index + 1
    )


def told(made: Made) -> bytes:
    """The imported body."""
    return b"".join(read.data for read in made.laid.reads)


def table(reports: Mapping[str, Report]) -> dict[str, Any]:
    """What became of everything, by repository."""
    by_repo: dict[str, list[Report]] = defaultdict(list)
    for name, report in reports.items():
        by_repo[name.partition("/")[0].replace("+", "/")].append(report)
    return {repo: dict(_summary(found)) for repo, found in sorted(by_repo.items())}


def _summary(found: Iterable[Report]) -> Iterator[tuple[str, Any]]:
    reports = list(found)
    refused = [each for it in reports for each in it.results if isinstance(each, Refused)]
    lost: Counter[str] = Counter()
    for it in reports:
        lost.update({loss.name: count for loss, count in it.losses.items()})
    yield "formats", dict(Counter(it.format or "unknown" for it in reports))
    yield "files", dict(Counter(it.status for it in reports))
    yield "exchanges imported", sum(it.count(Imported) for it in reports)
    yield (
        "why not",
        dict(Counter([it.why for it in reports if it.why] + [it.why for it in refused])),
    )
    yield "lost", dict(sorted(lost.items()))


def test_every_file_is_imported_or_says_why_not(reports: Mapping[str, Report]) -> None:
    assert len(reports) == FILES
    assert table(reports) == json.loads(TABLE.read_bytes())


def test_every_exchange_of_the_corpus_with_a_request_is_imported(
    reports: Mapping[str, Report],
) -> None:
    wrong = [
        (row.id, it.head.response.status)
        for row in rows()
        if row.fidelity not in ALONE
        and (it := made(reports, row)).head.response.status != row.status
    ]
    assert wrong == []


def test_imported_bodies_are_those_of_the_corpus_byte_for_byte(
    reports: Mapping[str, Report],
) -> None:
    kept = [it for it in rows() if it.fidelity in ("exact", "edited-length-differs")]
    assert len(kept) == 1145
    assert [it.id for it in kept if told(made(reports, it)) != it.body] == []


def test_bodies_that_were_kept_as_parsed_json_mean_the_same(reports: Mapping[str, Report]) -> None:
    kept = [it for it in rows() if it.fidelity == "json-reserialised"]
    assert len(kept) == 178
    different = [
        it.id
        for it in kept
        if told(made(reports, it)) != it.body
        and orjson.loads(told(made(reports, it))) != orjson.loads(it.body)
    ]
    assert different == []


def test_requests_are_asked_at_the_provider_that_they_were_asked_at(
    reports: Mapping[str, Report],
) -> None:
    asked: dict[str, set[str]] = defaultdict(set)
    for it in rows():
        if it.fidelity not in ALONE and (host := it.url.partition("://")[2].partition("/")[0]):
            asked[host].add(made(reports, it).meta.provider)
    hosts = ("api.openai.com", "api.anthropic.com", "api.mistral.ai", "api.deepseek.com")
    assert [asked[it] for it in hosts] == [{"openai"}, {"anthropic"}, {"mistral"}, {"deepseek"}]
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
    async with proxy("replay", tmp_path, pace=Instant(), after_last="fail") as replaying:
        for report in reports:
            for it in report.results:
                assert isinstance(it, Imported)
                answer = await ask(replaying.url, question(it.made, report.session))
                if answer.body != told(it.made):
                    wrong.append((report.path.name, it.number, answer.status))
    assert wrong == []


def question(made: Made, session: str) -> bytes:
    """The request of an exchange, for its file's session and its provider."""
    it = made.request
    headers = [f"{name}: {value}" for name, value in it.headers if name != "content-encoding"]
    target = f"/@{session}/~{made.meta.provider}{it.path}" + (f"?{it.query}" if it.query else "")
    return post(target, it.body, *headers, method=it.method)
