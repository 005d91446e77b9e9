"""`import`: converts recordings of other tools to cassettes, and their fixtures to scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.cli.import_.report import ImportRow, import_document, print_report
from llm_proxy.cli.library.cassettes import paths_with_progress
from llm_proxy.cli.option_types import CheckedTextType, IntRangeType
from llm_proxy.cli.options import CONFIG_OPTION, cassettes_option, normalise_option
from llm_proxy.cli.options.declaration import PATH_TYPE, env_option
from llm_proxy.cli.options.server import check_session_name
from llm_proxy.cli.output.printing import print_json
from llm_proxy.errors import UsageError, printable_excerpt
from llm_proxy.importing import ImportSettings
from llm_proxy.matching.option_grammar import parse_rules
from llm_proxy.pacing import Pace, RecordedPace, parse_pace
from llm_proxy.routing import RoutingSettings, is_valid_name
from llm_proxy.shell.importing import (
    Importer,
    assign_session_names,
    find_files,
    timestamp_now,
)
from llm_proxy.shell.library.library import Library
from llm_proxy.version import __version__


def _check_provider_name(name: str) -> None:
    """Raise `UsageError` for an invalid provider name."""
    if not is_valid_name(name):
        raise UsageError(
            f"'{printable_excerpt(name, 100)}' is no provider name: use letters, digits, dot, "
            "dash and "
            "underscore, at most 100 of them"
        )


def _parse_import_pace(text: str) -> Pace:
    """The pace of responses without times.  Raises `UsageError` for a pace that needs them."""
    pace = parse_pace(text)
    if isinstance(pace, RecordedPace):
        raise UsageError(
            f"'{text}' needs recorded times: write instant, a rate such as 50tps, or a model such "
            "as profile:gpt-4o"
        )
    return pace


@click.command(name="import")
@click.argument("paths", nargs=-1, required=True, type=PATH_TYPE, metavar="FILE|FOLDER...")
@cassettes_option
@CONFIG_OPTION
@env_option(
    "--session", default=DEFAULT_SESSION, metavar="NAME",
    type=CheckedTextType("session", check_session_name),
    help="The session of all that is imported.",
)  # fmt: skip
@click.option("--session-per-file", is_flag=True, help="A session for each file, called like it.")
@click.option(
    "--provider", metavar="NAME", type=CheckedTextType("provider", _check_provider_name),
    help="The provider of all requests.  [default: by their host, else by their path]",
)  # fmt: skip
@click.option(
    "--pace", "times", metavar="PACE", type=CheckedTextType("pace", _parse_import_pace),
    help="The times of answers whose source keeps none of their pieces: 50tps, profile:gpt-4o, …; "
    "see docs/pacing.md.  [default: as the source says, else at once]",
)  # fmt: skip
@click.option("--seed", type=IntRangeType(0), default=0, help="What chance in times is made of.")
@normalise_option
@env_option(
    "--scenarios", type=PATH_TYPE, default=Path("scenarios"),
    help="The folder of the scenario files that fixtures of aimock become.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would become of the files; write nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def import_(
    paths: tuple[Path, ...],
    cassettes: Path,
    *,
    session_per_file: bool,
    dry_run: bool,
    as_json: bool,
    **fields: Any,
) -> None:
    r"""Make cassettes of the recordings of other tools, and scenarios of their fixtures.

    VCR.py, VCR for Ruby and R, go-vcr, httprr, HAR, mitmproxy, reel-vcr, nock and Datadog's test
    agent are known by what their files hold, whatever these are called. Requests are redacted,
    keyed and numbered as if they had been recorded here; takes that are there stay, and what was
    imported before is not imported again. What a source does not keep, such as times, is said. A
    file or an exchange that cannot be imported, or has a body that is not understood, is named
    with the reason, and makes the exit code 1.

    Fixtures of aimock script answers, and hold no request: each file becomes a file of scenarios,
    for simulate, and what these say otherwise is told. A file that is there is never changed.

    \b
    Examples:
      llm-proxy import tests/cassettes
      llm-proxy import tests/cassettes --session-per-file --cassettes recorded
      llm-proxy import session.har flows.mitm --pace profile:gpt-4o
      llm-proxy import fixtures/chat.json --scenarios tests/scenarios
      llm-proxy import tests/cassettes --dry-run --json | jq .sum
    """
    files = find_files(paths)
    if session_per_file and fields["session"] != DEFAULT_SESSION:
        raise UsageError("--session-per-file and --session NAME: give one of them")
    library = Library(cassettes)
    library.refresh()
    names = assign_session_names(files)
    own = names if session_per_file else {}
    scenario_folder = fields.pop("scenarios")
    importer = Importer(
        library, _build_import_settings(**fields), own, dry_run, scenario_folder, names
    )
    rows = [
        ImportRow.from_report(file_report)
        for file_report in importer.import_files(paths_with_progress(files))
    ]
    if as_json:
        print_json(import_document(library, rows, is_dry_run=dry_run))
    else:
        print_report(library, rows, is_dry_run=dry_run)
    raise click.exceptions.Exit(1 if any(row.has_refusals for row in rows) else 0)


def _build_import_settings(
    session: str, provider: str | None, times: str | None, seed: int, normalise: Sequence[str]
) -> ImportSettings:
    return ImportSettings(
        routing_settings=RoutingSettings(session, parse_rules(normalise)),
        importer=f"llm-proxy {__version__}",
        imported_at=timestamp_now(),
        pace=_parse_import_pace(times) if times else None,
        seed=seed,
        provider=provider or "",
    )
