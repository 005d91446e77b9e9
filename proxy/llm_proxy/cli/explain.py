"""`explain`: shows which cassette answers a request, or why none does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from llm_proxy import dialects, display, matching
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.cli.json_documents import read_json_object
from llm_proxy.cli.library import find_cassette_path
from llm_proxy.cli.options import (
    CONFIG_OPTION,
    CheckedTextType,
    cassettes_option,
    check_session_name,
    json_option,
    match_option,
    normalise_option,
)
from llm_proxy.cli.output import Line, StyledText, print_json, print_lines, print_note
from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.diff.documents import displayable_leaves, json_leaves
from llm_proxy.display import count_with_noun, escape_line, format_percent
from llm_proxy.errors import UsageError
from llm_proxy.exchange import Headers, Request, header_value
from llm_proxy.miss_report import MissReport
from llm_proxy.misses.key_explanation import AppliedRule, KeyExplanation, explain_key
from llm_proxy.misses.report import (
    FULL_LIMITS,
    difference_line,
    format_normalise_options,
    nearest_summary,
    remedy_line,
)
from llm_proxy.routing import RoutedRequest, RoutingSettings, route_request
from llm_proxy.shell.library.library import Library, walk_cassettes
from llm_proxy.shell.library.library_takes import LibraryTakes

_DOCUMENT_VERSION: Final = 1
_NAME_COLUMNS: Final = 10
"""Width of the labels."""
_MAX_RULE_VALUE_CHARS: Final = 160
"""Characters of a value changed by a rule that the text output shows."""
_UNLIMITED_CHARS: Final = 1_000_000
_MAX_SHOWN_NAMES: Final = 20
"""Replacement names of a rule that the text output shows."""
_REQUEST_FIELDS: Final = frozenset(("method", "path", "query", "headers", "body"))
"""The fields of a document that is a whole request, and not only a body."""


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
@json_option
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
    match, path = fields["match"], fields["path"]
    rules = matching.EXACT_MATCH if match.is_exact else fields["normalise"]
    takes = LibraryTakes(library, allow_partial=allow_partial, rules=rules)
    headers = _parse_header_lines(fields["headers"])
    candidates = _candidate_requests(library, request, path)
    session = fields["session"] or candidates.cassette_session or DEFAULT_SESSION
    settings = RoutingSettings(session, rules)
    routed_candidates = [
        route_request(
            _with_overrides(candidate, path, fields["method"], headers),
            0.0,
            lambda: 0.0,
            settings=settings,
        )
        for candidate in candidates.requests
    ]
    routed = routed_candidates[0]
    if len(routed_candidates) > 1:
        routed = max(routed_candidates, key=takes.best_similarity)
    if candidates.is_path_guessed:
        print_note(
            f"no path was given: explained for {routed.request.method} "
            f"{routed.stored_request.path}; --path says another"
        )
    explanation = _explain_request(routed, takes, match.minimum_similarity)
    if as_json:
        print_json(_explanation_document(explanation))
    else:
        print_lines(_explanation_lines(explanation))
    is_answered = explanation.miss_report is None or explanation.similarity_and_takes is not None
    raise click.exceptions.Exit(0 if is_answered else 1)


@dataclass(frozen=True, slots=True)
class _CandidateRequests:
    """The requests that REQUEST may stand for: several where the path is guessed from the body."""

    requests: Sequence[Request]
    cassette_session: str = ""
    """Session of the cassette that the request was read from; empty for other input."""
    is_path_guessed: bool = False
    """Whether the path was guessed, as none was given."""


def _candidate_requests(library: Library, name: str, path: str) -> _CandidateRequests:
    """The requests for REQUEST: a JSON file, `-` for stdin, or a cassette; `path` of `--path`.

    Raises `UsageError` for invalid input, and `CassetteError` for a cassette that cannot be read.
    """
    file = Path(name)
    if name != "-" and (file.suffix == ".jsonl" or not file.is_file()):
        meta, stored = library.read_opening(_find_named_cassette(library, name))
        # `/~NAME` selects the provider, which the path alone may not.
        request = replace(stored, path=f"/~{meta.provider}{stored.path}")
        return _CandidateRequests((request,), meta.session)
    document = read_json_object(
        name,
        "the body of a request, or an object with method, path, headers and body",
        "there is nothing on stdin: pass a request, such as llm-proxy explain - < request.json"
        if name == "-"
        else f"{name} is empty: give a file with the JSON body of a request",
    )
    if document.keys() <= _REQUEST_FIELDS and {"path", "body"} & document.keys():
        return _CandidateRequests((_request_from_document(name, document),))
    if path:
        return _CandidateRequests((response_encoding.json_post_request(path, document),))
    guesses = list(_guess_chat_requests(document))
    if not guesses:
        raise UsageError(
            f"{name} asks for a turn in no dialect that is known: say its path, such as "
            "--path /v1/embeddings"
        )
    return _CandidateRequests(guesses, is_path_guessed=True)


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
        f"there is no file {shown}, and no cassette of that name in {library.root}: give a file "
        "with the JSON body of a request, - for stdin, or how a cassette's name begins"
    )


def _request_from_document(name: str, document: dict[str, Any]) -> Request:
    method, path, query = (document.get(item, "") for item in ("method", "path", "query"))
    if not all(isinstance(value, str) for value in (method, path, query)) or path[:1] != "/":
        raise UsageError(f"{name}: path must be a text that begins with /, method and query texts")
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
            f"{name}: headers must be an object of texts, or a list of pairs of texts"
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
        raise UsageError("--header: write NAME: VALUE, such as 'anthropic-beta: files'")
    return tuple((name.strip(), value.strip()) for name, _, value in pairs)


@dataclass(frozen=True, slots=True)
class _Explanation:
    """Everything that `explain` shows for a request."""

    routed_request: RoutedRequest
    key_explanation: KeyExplanation
    take_files_by_session: Mapping[str, Sequence[str]]
    """The files of the takes for the request, by session; its own session comes first."""
    miss_report: MissReport | None
    """Why no take answers in its session; None where one does."""
    similarity_and_takes: tuple[float, Sequence[str]] | None
    """Similarity (0 to 1) and takes of the nearest cassette, where `--match nearest` allows it."""


def _explain_request(
    routed: RoutedRequest, takes: LibraryTakes, min_similarity: float | None
) -> _Explanation:
    sessions = dict.fromkeys((routed.session, *takes.sessions_with_key(routed.key)))
    found_takes = {
        session: [take.file for take in takes.find_takes(session, routed.key)]
        for session in sessions
    }
    take_files = {session: files for session, files in found_takes.items() if files}
    miss = similar_takes = None
    if routed.session not in take_files:
        miss = takes.explain_miss(routed, FULL_LIMITS).report
        found = None
        if min_similarity is not None:
            found = takes.similar_takes(routed, min_similarity)
        if found is not None:
            similar_takes = found.similarity, [take.file for take in found.takes]
    return _Explanation(routed, explain_key(routed), take_files, miss, similar_takes)


def _explanation_lines(explanation: _Explanation) -> Iterator[Line]:
    """The explanation as lines of text."""
    routed, key = explanation.routed_request, explanation.key_explanation
    document = key.initial_document
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
    if not key.applied_rules:
        yield _labelled_line("rules", "none: every value counts")
    for applied_rule in key.applied_rules:
        yield from _applied_rule_lines(applied_rule)
    yield _labelled_line("key", routed.key)
    for session, files in explanation.take_files_by_session.items():
        takes = count_with_noun(len(files), "take")
        yield _labelled_line("answers", f"session {session}: {takes}", "good")
        yield from (f"  {escape_line(file)}" for file in files)
    if explanation.miss_report is not None:
        yield from _miss_lines(explanation.miss_report)
    if explanation.similarity_and_takes is not None:
        similarity, similar_files = explanation.similarity_and_takes
        alike = f"answers, {format_percent(similarity)} alike"
        yield _labelled_line("nearest", alike, "doubtful")
        yield from (f"  {escape_line(file)}" for file in similar_files)


def _explanation_document(explanation: _Explanation) -> dict[str, Any]:
    """The explanation as a JSON document."""
    routed, key = explanation.routed_request, explanation.key_explanation
    document, miss_report = key.initial_document, explanation.miss_report
    nearest = None
    if explanation.similarity_and_takes is not None:
        similarity, files = explanation.similarity_and_takes
        nearest = {"likeness": similarity, "files": files}
    return {
        "explain": _DOCUMENT_VERSION,
        "asked": {
            "method": document.method,
            "provider": document.provider,
            "path": document.path,
            "model": routed.model,
            "session": routed.session,
            "dialect": routed.dialect.name,
        },
        "query": document.query,
        "headers": document.headers,
        "body": document.body_kind,
        "values": displayable_leaves(key.final_document),
        "rules": [
            {
                "rule": applied_rule.rule,
                "changed": [
                    {"path": change.path, "before": change.stored, "after": change.requested}
                    for change in applied_rule.changes
                ],
                "more": applied_rule.further_count,
                "names": dict(applied_rule.value_by_alias),
            }
            for applied_rule in key.applied_rules
        ],
        "key_rules": matching.KEY_RULES_VERSION,
        "key": routed.key,
        "answers": [
            {"session": session, "files": files}
            for session, files in explanation.take_files_by_session.items()
        ],
        "miss": None if miss_report is None else asdict(miss_report),
        "nearest": nearest,
    }


def _applied_rule_lines(applied_rule: AppliedRule) -> Iterator[Line]:
    count = len(applied_rule.changes) + applied_rule.further_count
    changed = count_with_noun(count, "value") if applied_rule.changes else "nothing"
    yield _labelled_line("rule", f"{applied_rule.rule} changes {changed}")
    for change in applied_rule.changes:
        before = escape_line(change.stored)[:_MAX_RULE_VALUE_CHARS]
        after = escape_line(change.requested)[:_MAX_RULE_VALUE_CHARS]
        yield f"  {escape_line(change.path)}: {before} → {after or 'does not count'}"
    if applied_rule.further_count:
        yield f"  and {applied_rule.further_count:,} more"
    for name, value in list(applied_rule.value_by_alias.items())[:_MAX_SHOWN_NAMES]:
        yield f"  {name} is {escape_line(value)[:_MAX_RULE_VALUE_CHARS]}"
    if (more := len(applied_rule.value_by_alias) - _MAX_SHOWN_NAMES) > 0:
        yield f"  and {count_with_noun(more, 'name')} more"


def _miss_lines(miss_report: MissReport) -> Iterator[Line]:
    nearest = miss_report.nearest
    if nearest is None or miss_report.why != "differs":
        yield _labelled_line("miss", miss_report.text, "bad")
        return
    yield _labelled_line("miss", f"nearest is {nearest_summary(nearest)}", "bad")
    for difference in nearest.differences:
        text = difference_line(difference, _UNLIMITED_CHARS, _UNLIMITED_CHARS)
        yield f"  {escape_line(text)}"
        if remedy := remedy_line(difference):
            yield StyledText(f"    {remedy}", "dim")
    if nearest.more:
        yield f"  and {nearest.more:,} more"
    advice = "record it with llm-proxy record"
    if miss_report.rules:
        advice = f"{advice}, or it answers with: {format_normalise_options(miss_report.rules)}"
    yield _labelled_line("advice", advice)


def _labelled_line(name: str, text: str, style: str = "") -> Line:
    return (
        StyledText(f"{name:<{_NAME_COLUMNS}}", "bold"),
        StyledText(escape_line(text), style),
    )
