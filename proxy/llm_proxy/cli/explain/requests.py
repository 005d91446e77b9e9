"""Parses the REQUEST argument of `explain` into candidate requests."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from llm_proxy import dialects, display
from llm_proxy.cli.show.lookup import find_cassette
from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.errors import UsageError
from llm_proxy.exchange import Headers, Request, header_value
from llm_proxy.shell.library.library import Library, cassette_files

_CASSETTE: Final = ".jsonl"
_JSON: Final = ".json"
_WHOLE: Final = frozenset(("method", "path", "query", "headers", "body"))
"""What a document may have that is a request, not only its body."""


@dataclass(frozen=True, slots=True)
class RequestOverrides:
    """What was said of the request beside its body."""

    path: str = ""
    method: str = ""
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class CandidateRequests:
    """The requests that were meant: several where the path has to be found out."""

    requests: tuple[Request, ...]
    session: str = ""
    """That of the cassette whose request it is."""
    is_guessed: bool = False
    """Whether nobody said the path."""


def candidate_requests(
    library: Library, name: str, request_overrides: RequestOverrides
) -> CandidateRequests:
    """What REQUEST stands for: a JSON file, `-` for stdin, or a cassette.

    Raises `UsageError` for what is none, and `CassetteError` for a cassette that cannot be read.
    """
    file = Path(name)
    if name != "-" and (file.suffix == _CASSETTE or not file.is_file()):
        meta, stored = library.read_opening(_find_cassette(library, name))
        request = Request(stored.method, stored.path, stored.query, stored.headers, stored.body)
        # `/~NAME` says the provider, which the path alone may not.
        path = f"/~{meta.provider}{stored.path}"
        return CandidateRequests(
            (_with_overrides(replace(request, path=path), request_overrides),), meta.session
        )
    document = _parse_document(name, _read_input(name))
    if document.keys() <= _WHOLE and {"path", "body"} & document.keys():
        return CandidateRequests(
            (_with_overrides(_request_of_document(name, document), request_overrides),)
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
        for guess_request in _guess_requests(document)
    )
    if not guesses:
        raise UsageError(
            f"{name} asks for a turn in no dialect that is known: say its path, such as "
            "--path /v1/embeddings"
        )
    return CandidateRequests(guesses, is_guessed=True)


def _find_cassette(library: Library, name: str) -> Path:
    """The cassette of this name.  Raises `UsageError` that says of what there is none."""
    try:
        return find_cassette(library, name)
    except UsageError:
        if Path(name).is_dir() or (
            Path(name).suffix != _JSON and any(cassette_files(library.root))
        ):
            raise
    shown = display.shell_word(name)
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


def _parse_document(name: str, content: bytes) -> dict[str, Any]:
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


def _request_of_document(name: str, document: dict[str, Any]) -> Request:
    method, path, query = (document.get(item, "") for item in ("method", "path", "query"))
    if not all(isinstance(value, str) for value in (method, path, query)) or path[:1] != "/":
        raise UsageError(f"{name}: path must be a text that begins with /, method and query texts")
    path, _, behind = path.partition("?")
    body = document.get("body")
    content = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else b""
    if body is not None and not isinstance(body, str):
        content = response_encoding.json_line(body)
    headers = _merge_headers(name, document.get("headers", {}))
    if content and header_value(headers, "content-type") is None:
        headers = (*headers, ("content-type", "application/json"))
    method = method.upper() or ("POST" if content else "GET")
    return Request(method, path, query or behind, headers, content)


def _merge_headers(name: str, content: Any) -> Headers:
    pairs = list(content.items()) if isinstance(content, dict) else content
    if not isinstance(pairs, list) or not all(map(_is_name_value_pair, pairs)):
        raise UsageError(f"{name}: headers must be an object of texts, or a list of pairs of texts")
    return tuple((key, value) for key, value in pairs)


def _is_name_value_pair(value: Any) -> bool:
    return (
        isinstance(value, list | tuple)
        and len(value) == 2
        and all(isinstance(x, str) for x in value)
    )


def _guess_requests(document: dict[str, Any]) -> Iterator[Request]:
    """The requests of this body, to each path where it asks for a turn."""
    model = lenient_json.str_or_empty(document.get("model")) or "model"
    for dialect in dialects.chat_dialects().values():
        for stream in (document.get("stream") is True, document.get("stream") is not True):
            typical = dialect.sample_request(model, stream=stream)
            request = replace(typical, body=response_encoding.json_line(document))
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


def parse_headers(lines: Sequence[str]) -> Headers:
    """The headers that options spell, `NAME: VALUE` each.  Raises `UsageError`."""
    pairs = [line.partition(":") for line in lines]
    if any(not colon or not name.strip() for name, colon, _ in pairs):
        raise UsageError("--header: write NAME: VALUE, such as 'anthropic-beta: files'")
    return tuple((name.strip(), value.strip()) for name, _, value in pairs)
