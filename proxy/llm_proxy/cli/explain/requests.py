"""From what somebody gives as a request to the request."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from llm_proxy import dialects, display
from llm_proxy.cli.show.lookup import find
from llm_proxy.dialects import lenient_json, response_encoding
from llm_proxy.errors import UsageError
from llm_proxy.exchange import Headers, Request, header
from llm_proxy.shell.library.library import Library, files_below

_CASSETTE: Final = ".jsonl"
_JSON: Final = ".json"
_WHOLE: Final = frozenset(("method", "path", "query", "headers", "body"))
"""What a document may have that is a request, not only its body."""


@dataclass(frozen=True, slots=True)
class Given:
    """What was said of the request beside its body."""

    path: str = ""
    method: str = ""
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class Asking:
    """The requests that were meant: several where the path has to be found out."""

    requests: tuple[Request, ...]
    session: str = ""
    """That of the cassette whose request it is."""
    is_guessed: bool = False
    """Whether nobody said the path."""


def asking(library: Library, name: str, given: Given) -> Asking:
    """What REQUEST stands for: a JSON file, `-` for stdin, or a cassette.

    Raises `UsageError` for what is none, and `CassetteError` for a cassette that cannot be read.
    """
    file = Path(name)
    if name != "-" and (file.suffix == _CASSETTE or not file.is_file()):
        meta, stored = library.opening(_found(library, name))
        request = Request(stored.method, stored.path, stored.query, stored.headers, stored.body)
        # `/~NAME` says the provider, which the path alone may not.
        path = f"/~{meta.provider}{stored.path}"
        return Asking((_changed(replace(request, path=path), given),), meta.session)
    document = _document(name, _content(name))
    if document.keys() <= _WHOLE and {"path", "body"} & document.keys():
        return Asking((_changed(_whole(name, document), given),))
    if given.path:
        return Asking((_changed(response_encoding.post(given.path, document), given),))
    guesses = tuple(_changed(it, given) for it in _guesses(document))
    if not guesses:
        raise UsageError(
            f"{name} asks for a turn in no dialect that is known: say its path, such as "
            "--path /v1/embeddings"
        )
    return Asking(guesses, is_guessed=True)


def _found(library: Library, name: str) -> Path:
    """The cassette of this name.  Raises `UsageError` that says of what there is none."""
    try:
        return find(library, name)
    except UsageError:
        if Path(name).is_dir() or (Path(name).suffix != _JSON and any(files_below(library.root))):
            raise
    shown = display.shell_word(name)
    raise UsageError(
        f"there is no file {shown}, and no cassette of that name in {library.root}: give a file "
        "with the JSON body of a request, - for stdin, or how a cassette's name begins"
    )


def _content(name: str) -> bytes:
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


def _document(name: str, content: bytes) -> dict[str, Any]:
    try:
        document = lenient_json.parse(content)
    except ValueError as error:
        raise UsageError(f"{name} is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise UsageError(
            f"{name} holds no JSON object: give the body of a request, or an object with method, "
            "path, headers and body"
        )
    return dict(document)


def _whole(name: str, document: dict[str, Any]) -> Request:
    """The request that a document spells out."""
    method, path, query = (document.get(it, "") for it in ("method", "path", "query"))
    if not all(isinstance(it, str) for it in (method, path, query)) or path[:1] != "/":
        raise UsageError(f"{name}: path must be a text that begins with /, method and query texts")
    path, _, behind = path.partition("?")
    body = document.get("body")
    content = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else b""
    if body is not None and not isinstance(body, str):
        content = response_encoding.written(body)
    headers = _headers(name, document.get("headers", {}))
    if content and header(headers, "content-type") is None:
        headers = (*headers, ("content-type", "application/json"))
    method = method.upper() or ("POST" if content else "GET")
    return Request(method, path, query or behind, headers, content)


def _headers(name: str, given: Any) -> Headers:
    pairs = list(given.items()) if isinstance(given, dict) else given
    if not isinstance(pairs, list) or not all(map(_is_pair, pairs)):
        raise UsageError(f"{name}: headers must be an object of texts, or a list of pairs of texts")
    return tuple((key, value) for key, value in pairs)


def _is_pair(it: Any) -> bool:
    return isinstance(it, list | tuple) and len(it) == 2 and all(isinstance(x, str) for x in it)


def _guesses(document: dict[str, Any]) -> Iterator[Request]:
    """The requests of this body, to each path where it asks for a turn."""
    model = lenient_json.text(document.get("model")) or "model"
    for dialect in dialects.speakers().values():
        for stream in (document.get("stream") is True, document.get("stream") is not True):
            typical = dialect.typical(model, stream=stream)
            request = replace(typical, body=response_encoding.written(document))
            asked = dialect.conversation(request)
            if asked is not None and any(message.parts for message in asked.messages):
                yield request


def _changed(request: Request, given: Given) -> Request:
    """The request with what was said beside it."""
    path, _, query = given.path.partition("?")
    return replace(
        request,
        method=given.method.upper() or request.method,
        path=path or request.path,
        query=query or request.query,
        headers=(*request.headers, *given.headers),
    )


def headers_of(lines: Sequence[str]) -> Headers:
    """The headers that options spell, `NAME: VALUE` each.  Raises `UsageError`."""
    pairs = [line.partition(":") for line in lines]
    if any(not colon or not name.strip() for name, colon, _ in pairs):
        raise UsageError("--header: write NAME: VALUE, such as 'anthropic-beta: files'")
    return tuple((name.strip(), value.strip()) for name, _, value in pairs)
