"""`explain`: shows which cassette answers a request, or why none does."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from llm_proxy import dialects, display, matching
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.cli.commands import GroupedCommand
from llm_proxy.cli.json_documents import read_json_object
from llm_proxy.cli.library import find_cassette_path
from llm_proxy.cli.options import (
    CONFIG_OPTION,
    CheckedTextType,
    cassettes_option,
    check_session_name,
    json_option,
    match_option,
    match_rules_option,
)
from llm_proxy.cli.output import Line, StyledText, print_json, print_lines, print_note
from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.diff.documents import displayable_leaves, find_differences, json_leaves
from llm_proxy.display import count_with_noun, escape_line, folder_name, format_percent
from llm_proxy.errors import UsageError
from llm_proxy.exchange import Headers, Request, header_value
from llm_proxy.matching import key_document
from llm_proxy.miss_report import MissReport
from llm_proxy.misses.report import (
    FULL_LIMITS,
    difference_line,
    format_normalise_options,
    nearest_summary,
    remedy_line,
)
from llm_proxy.redaction import environment_secret_spellings
from llm_proxy.routing import RoutedRequest, RoutingSettings, route_request
from llm_proxy.shell.library.library import Library, walk_cassettes
from llm_proxy.shell.library.library_takes import LibraryTakes

_DOCUMENT_VERSION: Final = 1
_NAME_COLUMNS: Final = 10
"""Width of the labels."""
_MAX_RULE_VALUE_CHARS: Final = 160
"""Characters of a value changed by a rule that the text output shows."""
_UNLIMITED_CHARS: Final = 1_000_000
_MAX_SHOWN_PLACEHOLDERS: Final = 20
"""Placeholders of a rule that the text output shows."""
_REQUEST_FIELDS: Final = frozenset(("method", "path", "query", "headers", "body"))
"""The fields of a document that is a whole request, and not only a body."""


@click.command(cls=GroupedCommand)
@click.argument("request")
@click.option("--path", default="", help="Path of the request (default: guessed from the body).")
@click.option(
    "--method",
    default="",
    help="Method of the request (default: POST if there is a body, else GET).",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="LINE",
    help="Add a request header in the form NAME: VALUE. Repeatable.",
)
@click.option(
    "--session",
    metavar="NAME",
    type=CheckedTextType("session", check_session_name),
    help="Session of the request.",
)
@click.option("--allow-partial", is_flag=True, help="Also match incomplete takes.")
@cassettes_option
@match_rules_option
@match_option
@CONFIG_OPTION
@json_option
def explain(
    request: str, cassettes: Path, *, as_json: bool, allow_partial: bool, **fields: Any
) -> None:
    r"""Show which cassette matches a request, or why none does.

    The output shows the parts of the request that form the key, the changes made by each rule, the
    key, and the matching takes. If no take matches, the output shows the nearest cassette, every
    difference, and the --normalise rules with which that cassette would match.

    REQUEST is a JSON file with the body of a request, or an object that contains method, path,
    headers and body. Use - for stdin. REQUEST can also be a cassette: a file, or the first
    characters of its name or key. The exit code is 0 if a cassette matches, and 1 if none does.

    \b
    Examples:
      llm-proxy explain request.json
      llm-proxy explain request.json --path /v1/messages --normalise uuids
      llm-proxy explain dc8593 --normalise claude-code
      llm-proxy explain - --json < request.json | jq .miss.nearest.differences
    """
    library = Library(cassettes)
    library.refresh()
    match, path = fields["match"], fields["path"]
    rules = fields["normalise"]
    if match.is_exact:
        rules = rules.as_exact()
    takes = LibraryTakes(library, allow_partial=allow_partial, rules=rules)
    headers = _parse_header_lines(fields["headers"])
    candidates, cassette_session = _candidate_requests(library, request, path)
    session = fields["session"] or cassette_session or DEFAULT_SESSION
    settings = RoutingSettings(session, rules, environment_secret_spellings(os.environ))
    routed_candidates = [
        route_request(
            _with_overrides(candidate, path, fields["method"], headers),
            0.0,
            lambda: 0.0,
            settings=settings,
        )
        for candidate in candidates
    ]
    routed = routed_candidates[0]
    if len(routed_candidates) > 1:  # the path was guessed from the body
        routed = max(routed_candidates, key=takes.best_similarity)
        print_note(
            f"path guessed from the body: {routed.request.method} {routed.stored_request.path}; "
            "if this path is wrong, set --path"
        )
    explanation = _explain_request(routed, takes, match.minimum_similarity)
    if as_json:
        print_json(explanation)
    else:
        print_lines(_explanation_lines(explanation, routed))
    is_answered = explanation["miss"] is None or explanation["nearest"] is not None
    raise click.exceptions.Exit(0 if is_answered else 1)


def _candidate_requests(library: Library, name: str, path: str) -> tuple[list[Request], str]:
    """The requests that REQUEST may stand for, and the session of a cassette, else an empty text.

    REQUEST is a JSON file, `-` for stdin, or a cassette.  There are several where no `path` is
    given: it is guessed from the body.

    Raises `UsageError` for invalid input, and `CassetteError` for a cassette that cannot be read.
    """
    file = Path(name)
    if name != "-" and (file.suffix == ".jsonl" or not file.is_file()):
        meta, stored = library.read_opening(_find_named_cassette(library, name))
        # `/~NAME` selects the provider, which the path alone may not.
        request = replace(stored, path=f"/~{meta.provider}{stored.path}")
        return [request], meta.session
    document = read_json_object(
        name,
        "the body of a request, or an object with method, path, headers and body",
        "stdin is empty; pass a request, for example: llm-proxy explain - < request.json"
        if name == "-"
        else f"{name} is empty; pass a file with the JSON body of a request",
    )
    if document.keys() <= _REQUEST_FIELDS and {"path", "body"} & document.keys():
        return [_request_from_document(name, document)], ""
    if path:
        return [response_encoding.json_post_request(path, document)], ""
    guesses = list(_guess_chat_requests(document))
    if not guesses:
        raise UsageError(
            f"{name}: cannot guess the path from the body; set the path, for "
            "example --path /v1/embeddings"
        )
    return guesses, ""


def _find_named_cassette(library: Library, name: str) -> Path:
    """The cassette's file.  Raises `UsageError`, with a hint at JSON files where that may help."""
    try:
        return find_cassette_path(library, name)
    except UsageError:
        if Path(name).is_dir() or (
            Path(name).suffix != ".json" and any(walk_cassettes(library.root))
        ):
            raise
    shown = display.shell_quoted_path(name)
    raise UsageError(
        f"no such file: {shown}, and no such cassette in {folder_name(library.root)}; pass the "
        "path of a JSON file, - for stdin, or the first characters of a cassette name"
    )


def _request_from_document(name: str, document: dict[str, Any]) -> Request:
    method, path, query = (document.get(item, "") for item in ("method", "path", "query"))
    if not all(isinstance(value, str) for value in (method, path, query)) or path[:1] != "/":
        raise UsageError(
            f"{name}: path must be a string that starts with /; method and query must be strings"
        )
    path, _, behind = path.partition("?")
    match document.get("body"):
        case None:
            content = b""
        case str() as text:
            content = text.encode("utf-8", "surrogatepass")
        case body:
            content = response_encoding.single_line_json(body)
    try:
        named_headers: Any = msgspec.convert(
            document.get("headers", {}), dict[str, str] | list[tuple[str, str]]
        )
    except msgspec.ValidationError:
        raise UsageError(
            f"{name}: headers must be an object with string values, or a list of "
            "[name, value] pairs"
        ) from None
    headers = tuple(named_headers.items() if isinstance(named_headers, dict) else named_headers)
    if content and header_value(headers, "content-type") is None:
        headers = (*headers, ("content-type", "application/json"))
    method = method.upper() or ("POST" if content else "GET")
    return Request(method, path, query or behind, headers, content)


def _guess_chat_requests(document: dict[str, Any]) -> Iterator[Request]:
    """A request with this body for each dialect and streaming mode in which it is a chat."""
    model = lenient_json.str_or_empty(document.get("model")) or "model"
    for dialect in dialects.chat_dialects().values():
        for stream in (document.get("stream") is True, document.get("stream") is not True):
            typical = dialect.sample_request(model, stream=stream)
            request = replace(typical, body=response_encoding.single_line_json(document))
            conversation = dialect.decode_request(request)
            if conversation is not None and any(message.parts for message in conversation.messages):
                yield request


def _with_overrides(request: Request, path: str, method: str, headers: Headers) -> Request:
    """`request` with the path, method and headers of options; empty ones override nothing."""
    path, _, query = path.partition("?")
    return replace(
        request,
        method=method.upper() or request.method,
        path=path or request.path,
        query=query or request.query,
        headers=(*request.headers, *headers),
    )


def _parse_header_lines(lines: Sequence[str]) -> Headers:
    """Headers from `NAME: VALUE` lines.  Raises `UsageError` for a line of another form."""
    pairs = [line.partition(":") for line in lines]
    if any(not colon or not name.strip() for name, colon, _ in pairs):
        raise UsageError("--header: expected NAME: VALUE, such as 'anthropic-beta: files'")
    return tuple((name.strip(), value.strip()) for name, _, value in pairs)


def _explain_request(
    routed: RoutedRequest, takes: LibraryTakes, min_similarity: float | None
) -> dict[str, Any]:
    """The explanation as a JSON document."""
    requested = document = key_document(routed.provider, routed.stored_request)
    rules: list[dict[str, Any]] = []
    for rule in routed.match_rules.rules:
        for step in rule.preset_rules or (rule,):
            normalized = step.normalize_document(document)
            found = find_differences(normalized.document, document)
            rules.append(
                {
                    "rule": f"{rule}: {step}" if rule.preset_rules else str(rule),
                    "changed": [
                        {"path": change.path, "before": change.stored, "after": change.requested}
                        for change in found.differences
                    ],
                    "more": found.further_count,
                    "placeholders": dict(normalized.value_by_alias),
                }
            )
            document = normalized.document
    files_by_session: dict[str, list[str]] = {}  # the request's own session comes first
    for session in dict.fromkeys((routed.session, *takes.sessions_with_key(routed.key))):
        if files := [take.file for take in takes.find_takes(session, routed.key)]:
            files_by_session[session] = files
    miss = nearest = None
    if routed.session not in files_by_session:
        miss = takes.explain_miss(routed, FULL_LIMITS).report
        if min_similarity is not None and (similar := takes.similar_takes(routed, min_similarity)):
            files = [take.file for take in similar.takes]
            nearest = {"similarity": similar.similarity, "files": files}
    return {
        "explain": _DOCUMENT_VERSION,
        "request": {
            "method": requested.method,
            "provider": requested.provider,
            "path": requested.path,
            "model": routed.model,
            "session": routed.session,
            "dialect": routed.dialect.name,
        },
        "query": requested.query,
        "headers": requested.headers,
        "body": requested.body_kind,
        "values": displayable_leaves(document),
        "rules": rules,
        "key_rules": matching.KEY_RULES_VERSION,
        "key": routed.key,
        "takes": [
            {"session": session, "files": files} for session, files in files_by_session.items()
        ],
        "miss": miss,
        "nearest": nearest,
    }


def _explanation_lines(explanation: Mapping[str, Any], routed: RoutedRequest) -> Iterator[Line]:
    """The explanation as lines of text."""
    document = key_document(routed.provider, routed.stored_request)
    model = f" ({routed.model})" if routed.model else ""
    yield _labelled_line(
        "request", f"{document.method} {document.path}{model}, session {routed.session}"
    )
    yield _labelled_line("dialect", f"{routed.dialect.name}, provider {document.provider}")
    if document.query:
        yield _labelled_line("query", document.query)
    for name, value in document.headers:
        yield _labelled_line("header", f"{name}: {value}")
    values = len(json_leaves(document)) - len(document.headers) - 4
    yield _labelled_line(
        "body",
        f"{document.body_kind}, {count_with_noun(values, 'value')}; key rules "
        f"{matching.KEY_RULES_VERSION}",
    )
    if not explanation["rules"]:
        yield _labelled_line("rules", "none: every value is part of the key")
    for rule in explanation["rules"]:
        count = len(rule["changed"]) + rule["more"]
        changed = count_with_noun(count, "value") if count else "nothing"
        yield _labelled_line("rule", f"{rule['rule']} changes {changed}")
        for change in rule["changed"]:
            before, after = (
                escape_line(change[when])[:_MAX_RULE_VALUE_CHARS] for when in ("before", "after")
            )
            yield f"  {escape_line(change['path'])}: {before} → {after or 'ignored'}"
        if rule["more"]:
            yield f"  and {rule['more']:,} more"
        for name, value in list(rule["placeholders"].items())[:_MAX_SHOWN_PLACEHOLDERS]:
            yield f"  {name} = {escape_line(value)[:_MAX_RULE_VALUE_CHARS]}"
        if (more := len(rule["placeholders"]) - _MAX_SHOWN_PLACEHOLDERS) > 0:
            yield f"  and {count_with_noun(more, 'placeholder')} more"
    yield _labelled_line("key", routed.key)
    for takes in explanation["takes"]:
        count = count_with_noun(len(takes["files"]), "take")
        yield _labelled_line("takes", f"session {takes['session']}: {count}", "good")
        yield from (f"  {escape_line(file)}" for file in takes["files"])
    if explanation["miss"] is not None:
        yield from _miss_lines(explanation["miss"])
    if (nearest := explanation["nearest"]) is not None:
        similar = f"replayed ({format_percent(nearest['similarity'])} similar)"
        yield _labelled_line("nearest", similar, "doubtful")
        yield from (f"  {escape_line(file)}" for file in nearest["files"])


def _miss_lines(miss_report: MissReport) -> Iterator[Line]:
    nearest = miss_report.nearest
    if nearest is None or miss_report.reason != "differs":
        yield _labelled_line("miss", miss_report.text, "bad")
        return
    yield _labelled_line("miss", f"nearest: {nearest_summary(nearest)}", "bad")
    for difference in nearest.differences:
        text = difference_line(difference, _UNLIMITED_CHARS, _UNLIMITED_CHARS)
        yield f"  {escape_line(text)}"
        if remedy := remedy_line(difference):
            yield StyledText(f"    {remedy}", "dim")
    if nearest.more:
        yield f"  and {nearest.more:,} more"
    advice = "record the request with llm-proxy record"
    if miss_report.rules:
        options = format_normalise_options(miss_report.rules)
        advice = f"{advice}, or add these options to match the nearest cassette: {options}"
    yield _labelled_line("advice", advice)


def _labelled_line(name: str, text: str, style: str = "") -> Line:
    return (
        StyledText(f"{name:<{_NAME_COLUMNS}}", "bold"),
        StyledText(escape_line(text), style),
    )
