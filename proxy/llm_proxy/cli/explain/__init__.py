"""`explain`: which cassette answers a request, and why none does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.cli.explain.output import Explained, document, page
from llm_proxy.cli.explain.requests import Given, asking, headers_of
from llm_proxy.cli.option_types import Checked
from llm_proxy.cli.options import CONFIG, cassettes, match, normalise
from llm_proxy.cli.options.server import session_name
from llm_proxy.cli.output.printing import print_json, print_lines, print_note
from llm_proxy.exchange import Request
from llm_proxy.matching import EXACT
from llm_proxy.matching.grammar import match_of, rules_of
from llm_proxy.misses.explaining import explanation
from llm_proxy.misses.report import FULL
from llm_proxy.routing import Call, Routing, route
from llm_proxy.shell.library.library import Library
from llm_proxy.shell.library.library_takes import TakesOnDisk


@click.command
@click.argument("request")
@click.option("--path", default="", help="Its path; for a mere body else found by its shape.")
@click.option("--method", default="", help="Its method, where it is not POST.")
@click.option("--header", "headers", multiple=True, metavar="LINE", help="A header. Repeatable.")
@click.option(
    "--session",
    metavar="NAME",
    type=Checked("session", session_name),
    help="The session that it belongs to.",
)
@click.option("--allow-partial", is_flag=True, help="Takes that are not complete answer, too.")
@cassettes
@normalise
@match
@CONFIG
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def explain(
    request: str, cassettes: Path, *, as_json: bool, allow_partial: bool, **given: Any
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
    how = match_of(given["match"])
    rules = EXACT if how.is_exact else rules_of(given["normalise"])
    takes = TakesOnDisk(library, allow_partial=allow_partial, rules=rules)
    beside = Given(given["path"], given["method"], headers_of(given["headers"]))
    asked = asking(library, request, beside)
    routing = Routing(given["session"] or asked.session or DEFAULT_SESSION, rules)
    calls = [_call(it, routing) for it in asked.requests]
    call = _likeliest(calls, takes)
    if asked.is_guessed:
        print_note(
            f"no path was given: explained for {call.request.method} {call.stored.path}; "
            "--path says another"
        )
    it = _explained(call, takes, how.nearest)
    if as_json:
        print_json(document(it))
    else:
        print_lines(page(it))
    raise click.exceptions.Exit(0 if it.miss is None or it.alike is not None else 1)


def _call(request: Request, routing: Routing) -> Call:
    return route(request, 0.0, lambda: 0.0, how=routing)


def _likeliest(calls: Sequence[Call], takes: TakesOnDisk) -> Call:
    """Of calls that could be meant, the one that the library knows best."""
    if len(calls) == 1:
        return calls[0]
    return max(calls, key=takes.likeness)


def _explained(call: Call, takes: TakesOnDisk, share: float | None) -> Explained:
    answers = _answers(call, takes)
    is_missed = call.session not in answers
    alike = None
    if is_missed and share is not None and (found := takes.alike(call, share)) is not None:
        alike = found.likeness, [it.file for it in found.takes]
    miss = takes.explained(call, FULL).missed if is_missed else None
    return Explained(call, explanation(call), answers, miss, alike)


def _answers(call: Call, takes: TakesOnDisk) -> Mapping[str, list[str]]:
    """The files that answer, by session: the one that was asked, and those with takes of it."""
    sessions = dict.fromkeys((call.session, *takes.sessions(call.key)))
    found = {it: [take.file for take in takes.find(it, call.key)] for it in sessions}
    return {session: files for session, files in found.items() if files}
