"""Parses the REQUEST argument of `explain` into candidate requests."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from llm_proxy import dialects, display
from llm_proxy.cli.show.lookup import find_cassette_path
from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.errors import UsageError
from llm_proxy.exchange import Headers, Request, header_value
from llm_proxy.shell.library.library import Library, walk_cassettes

_CASSETTE_SUFFIX: Final = ".jsonl"
_JSON_SUFFIX: Final = ".json"
_REQUEST_FIELDS: Final = frozenset(("method", "path", "query", "headers", "body"))
"""The fields of a document that is a whole request, and not only a body."""


@dataclass(frozen=True, slots=True)
class RequestOverrides:
    """Path, method and headers from options; empty ones override nothing."""

    path: str = ""
    method: str = ""
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class CandidateRequests:
    """The requests that REQUEST may stand for: several where the path is guessed from the body."""

    requests: tuple[Request, ...]
    cassette_session: str = ""
    """Session of the cassette that the request was read from; empty for other input."""
    is_path_guessed: bool = False
    """Whether the path was guessed, as none was given."""


def candidate_requests(
    library: Library, name: str, request_overrides: RequestOverrides
) -> CandidateRequests:
    """The requests for REQUEST: a JSON file, `-` for stdin, or a cassette.

    Raises `UsageError` for invalid input, and `CassetteError` for a cassette that cannot be read.
    """
    file = Path(name)
    if name != "-" and (file.suffix == _CASSETTE_SUFFIX or not file.is_file()):
        meta, stored = library.read_opening(_find_named_cassette(library, name))
        # `/~NAME` selects the provider, which the path alone may not.
        path = f"/~{meta.provider}{stored.path}"
        return CandidateRequests(
            (_with_overrides(replace(stored, path=path), request_overrides),), meta.session
        )
    document = _parse_json_object(name, _read_input(name))
    if document.keys() <= _REQUEST_FIELDS and {"path", "body"} & document.keys():
        return CandidateRequests(
            (_with_overrides(_request_from_document(name, document), request_overrides),)
        )
    if request_overrides.path:
        return CandidateRequests(
            (
                _with_overrides(
                    response_encoding.json_post_request(request_overrides.path, document),
                    request_overrides,
                ),
            )
        )
    guesses = tuple(
        _with_overrides(guess_request, request_overrides)
        for guess_request in _guess_chat_requests(document)
    )
    if not guesses:
        raise UsageError(
            f"{name} asks for a turn in no dialect that is known: say its path, such as "
            "--path /v1/embeddings"
        )
    return CandidateRequests(guesses, is_path_guessed=True)


def _find_named_cassette(library: Library, name: str) -> Path:
    """The cassette's file.  Raises `UsageError`, with a hint at JSON files where that may help."""
    try:
        return find_cassette_path(library, name)
    except UsageError:
        if Path(name).is_dir() or (
            Path(name).suffix != _JSON_SUFFIX and any(walk_cassettes(library.root))
        ):
            raise
    shown = display.shell_quoted_path(name)
    raise UsageError(
        f"there is no file {shown}, and no cassette of that name in {library.root}: give a file "
        "with the JSON body of a request, - for stdin, or how a cassette's name begins"
    )


def _read_input(name: str) -> bytes:
    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from None
    if content.strip():
        return content
    if name == "-":
        raise UsageError(
            "there is nothing on stdin: pass a request, such as llm-proxy explain - < request.json"
        )
    raise UsageError(f"{name} is empty: give a file with the JSON body of a request")


def _parse_json_object(name: str, content: bytes) -> dict[str, Any]:
    try:
        document = lenient_json.parse_json(content)
    except ValueError as error:
        raise UsageError(f"{name} is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise UsageError(
            f"{name} holds no JSON object: give the body of a request, or an object with method, "
            "path, headers and body"
        )
    return dict(document)


def _request_from_document(name: str, document: dict[str, Any]) -> Request:
    method, path, query = (document.get(item, "") for item in ("method", "path", "query"))
    if not all(isinstance(value, str) for value in (method, path, query)) or path[:1] != "/":
        raise UsageError(f"{name}: path must be a text that begins with /, method and query texts")
    path, _, behind = path.partition("?")
    body = document.get("body")
    content = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else b""
    if body is not None and not isinstance(body, str):
        content = response_encoding.single_line_json(body)
    headers = _headers_from_json(name, document.get("headers", {}))
    if content and header_value(headers, "content-type") is None:
        headers = (*headers, ("content-type", "application/json"))
    method = method.upper() or ("POST" if content else "GET")
    return Request(method, path, query or behind, headers, content)


def _headers_from_json(name: str, raw_headers: Any) -> Headers:
    pairs = list(raw_headers.items()) if isinstance(raw_headers, dict) else raw_headers
    if not isinstance(pairs, list) or not all(map(_is_name_value_pair, pairs)):
        raise UsageError(f"{name}: headers must be an object of texts, or a list of pairs of texts")
    return tuple((key, value) for key, value in pairs)


def _is_name_value_pair(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) == 2
        and all(isinstance(x, str) for x in value)
    )


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


def _with_overrides(request: Request, request_overrides: RequestOverrides) -> Request:
    path, _, query = request_overrides.path.partition("?")
    return replace(
        request,
        method=request_overrides.method.upper() or request.method,
        path=path or request.path,
        query=query or request.query,
        headers=(*request.headers, *request_overrides.headers),
    )


def parse_header_lines(lines: Sequence[str]) -> Headers:
    """Headers from `NAME: VALUE` lines.  Raises `UsageError` for a line of another form."""
    pairs = [line.partition(":") for line in lines]
    if any(not colon or not name.strip() for name, colon, _ in pairs):
        raise UsageError("--header: write NAME: VALUE, such as 'anthropic-beta: files'")
    return tuple((name.strip(), value.strip()) for name, _, value in pairs)
