"""`explain`: shows which cassette answers a request, or why none does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.cli.explain.output import RequestExplanation, explanation_document, explanation_lines
from llm_proxy.cli.explain.requests import RequestOverrides, candidate_requests, parse_header_lines
from llm_proxy.cli.option_types import CheckedTextType
from llm_proxy.cli.options import CONFIG_OPTION, cassettes_option, match_option, normalise_option
from llm_proxy.cli.options.server import check_session_name
from llm_proxy.cli.output.printing import print_json, print_lines, print_note
from llm_proxy.exchange import Request
from llm_proxy.matching import EXACT_MATCH
from llm_proxy.matching.option_grammar import parse_match_settings, parse_rules
from llm_proxy.misses.key_explanation import explain_key
from llm_proxy.misses.report import FULL_LIMITS
from llm_proxy.routing import RoutedRequest, RoutingSettings, route_request
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.library.library_takes import LibraryTakes


@click.command
@click.argument("request")
@click.option("--path", default="", help="Its path; for a mere body else found by its shape.")
@click.option("--method", default="", help="Its method, where it is not POST.")
@click.option("--header", "headers", multiple=True, metavar="LINE", help="A header. Repeatable.")
@click.option(
    "--session",
    metavar="NAME",
    type=CheckedTextType("session", check_session_name),
    help="The session that it belongs to.",
)
@click.option("--allow-partial", is_flag=True, help="Takes that are not complete answer, too.")
@cassettes_option
@normalise_option
@match_option
@CONFIG_OPTION
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def explain(
    request: str, cassettes: Path, *, as_json: bool, allow_partial: bool, **fields: Any
) -> None:
    r"""Say which cassette answers a request, or why none does and what would help.

    Told are what the key is made from, what each rule changes of it, the key, and the takes that
    answer; else the nearest cassette with all that differs, and the rules by which it would answer.
    REQUEST is a file with the JSON body of a request, or with an object of method, path, headers
    and body; - for stdin; or a cassette: a file, or the beginning of its name or key. No server
    is needed. The exit code is 0 where a cassette answers, and 1 where none does.

    \b
    Examples:
      llm-proxy explain request.json
      llm-proxy explain request.json --path /v1/messages --normalise uuids
      llm-proxy explain dc8593 --normalise claude-code
      llm-proxy explain - --json < request.json | jq .miss.nearest.differences
    """
    library = Library(cassettes)
    library.refresh()
    match_settings = parse_match_settings(fields["match"])
    rules = EXACT_MATCH if match_settings.is_exact else parse_rules(fields["normalise"])
    takes = LibraryTakes(library, allow_partial=allow_partial, rules=rules)
    request_overrides = RequestOverrides(
        fields["path"], fields["method"], parse_header_lines(fields["headers"])
    )
    candidates = candidate_requests(library, request, request_overrides)
    routing = RoutingSettings(
        fields["session"] or candidates.cassette_session or DEFAULT_SESSION, rules
    )
    routed_candidates = [_route_request(sent, routing) for sent in candidates.requests]
    routed = _most_similar_request(routed_candidates, takes)
    if candidates.is_path_guessed:
        print_note(
            f"no path was given: explained for {routed.request.method} "
            f"{routed.stored_request.path}; "
            "--path says another"
        )
    request_explanation = _explain_request(routed, takes, match_settings.minimum_similarity)
    if as_json:
        print_json(explanation_document(request_explanation))
    else:
        print_lines(explanation_lines(request_explanation))
    raise click.exceptions.Exit(
        0
        if request_explanation.miss_report is None
        or request_explanation.similarity_and_takes is not None
        else 1
    )


def _route_request(request: Request, routing: RoutingSettings) -> RoutedRequest:
    return route_request(request, 0.0, lambda: 0.0, settings=routing)


def _most_similar_request(
    routed_candidates: Sequence[RoutedRequest], takes: LibraryTakes
) -> RoutedRequest:
    if len(routed_candidates) == 1:
        return routed_candidates[0]
    return max(routed_candidates, key=takes.best_similarity)


def _explain_request(
    routed: RoutedRequest, takes: LibraryTakes, min_similarity: float | None
) -> RequestExplanation:
    take_files = _take_files_by_session(routed, takes)
    is_missed = routed.session not in take_files
    similar_takes = None
    if (
        is_missed
        and min_similarity is not None
        and (found := takes.similar_takes(routed, min_similarity)) is not None
    ):
        similar_takes = found.similarity, [take.file for take in found.takes]
    miss = takes.explain_miss(routed, FULL_LIMITS).report if is_missed else None
    return RequestExplanation(routed, explain_key(routed), take_files, miss, similar_takes)


def _take_files_by_session(routed: RoutedRequest, takes: LibraryTakes) -> Mapping[str, list[str]]:
    """The files of the takes for the request, by session: its own first, then the others."""
    sessions = dict.fromkeys((routed.session, *takes.sessions_with_key(routed.key)))
    found = {text: [take.file for take in takes.find_takes(text, routed.key)] for text in sessions}
    return {session: files for session, files in found.items() if files}
