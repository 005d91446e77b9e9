"""From a request to a call: its session, provider, dialect and key.

`/@NAME/...` in front scopes a request to session NAME, `/~NAME/...` after that names the
provider.  Nothing else is ever stripped: `/openai/v1/...` is Groq's own path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, Generic, Self, TypeVar, overload

from llm_proxy import dialects, matching, redaction
from llm_proxy.cassette import StoredRequest
from llm_proxy.cassette.model import DEFAULT_SESSION
from llm_proxy.conversation import Conversation
from llm_proxy.credentials import credentials
from llm_proxy.dialects import Dialect, lenient_json
from llm_proxy.errors import RequestRefused, printable
from llm_proxy.exchange import Request, header
from llm_proxy.matching import PLAIN, Normalised, Rules
from llm_proxy.providers import provider_of
from llm_proxy.take_numbers import Wish

T = TypeVar("T")

SESSION_HEADER: Final = "x-llm-proxy-session"
SCENARIO_HEADER: Final = "x-llm-proxy-scenario"
PACE_HEADER: Final = "x-llm-proxy-pace"
FAULT_HEADER: Final = "x-llm-proxy-fault"
ERROR_HEADER: Final = "x-llm-proxy-error"
"""On an answer that is an error of ours: its type."""
OUR_HEADERS: Final = "x-llm-proxy-"
"""Headers with this prefix are for us and go no further."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LONGEST: Final = 100
"""Characters of a name."""
_PREFIXES: Final = ("/@", "/~")
_PREFIX: Final = re.compile(r"(?:/@(?P<session>[^/]*))?(?:/~(?P<provider>[^/]*))?(?P<path>/.*|)")


class _Once(Generic[T]):
    """A property that is computed when it is first asked for.

    Two threads that ask at once may both compute it, and neither waits for the other: that of
    `functools` has one lock for all calls before Python 3.12, and the recorder's thread, busy with
    a large request, would hold up the event loop.
    """

    def __init__(self, compute: Callable[[Call], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, call: None, _owner: type[Call]) -> Self: ...

    @overload
    def __get__(self, call: Call, _owner: type[Call]) -> T: ...

    def __get__(self, call: Call | None, _owner: type[Call]) -> Self | T:
        if call is None:  # asked of the class
            return self
        value = self._compute(call)
        call.__dict__[self._name] = value  # which is found before this descriptor from then on
        return value


@dataclass(frozen=True)
class Call:
    """A request on its way through us, with everything that its answer depends on."""

    request: Request
    """As the provider is asked."""
    plain: Request
    """The same without a content coding: what is read, stored, and keyed."""
    session: str
    provider: str
    dialect: Dialect
    arrived: float
    """The moment the request was read in full, in seconds of the loop's clock."""
    now: Callable[[], float]
    """The loop's clock, in seconds."""
    scenario: str = ""
    """The scenario that the client names in a header."""
    pace: str = ""
    """The pace that the client asks for in a header; empty where it asks for none."""
    faults: tuple[str, ...] = ()
    """The faults that the client asks for in headers."""
    rules: Rules = PLAIN
    """What its key is loosened by."""
    wish: Wish | None = None
    """What it is an attempt at; None where each request stands for itself."""

    def elapsed(self) -> float:
        """ms since the request was read in full."""
        return (self.now() - self.arrived) * 1000

    @_Once
    def credentials(self) -> frozenset[bytes]:
        """What must not be stored of this request, wherever it turns up."""
        return credentials(self.plain)

    @_Once
    def keyed(self) -> StoredRequest:
        """The request as its key is made from it: without what is secret by its name.

        What its credentials spell may stand in it elsewhere: it is neither stored nor shown.
        """
        asked = self.plain
        query, count = redaction.query(asked.query)
        headers = redaction.request_headers(asked.headers)
        return StoredRequest(asked.method, asked.path, query, headers, asked.body, count)

    @_Once
    def stored(self) -> StoredRequest:
        """The request as it may be stored; the same object as `keyed` where that may be."""
        return without_secrets(self.keyed, self.credentials, redaction.OF_CLIENT)

    @_Once
    def conversation(self) -> Conversation | None:
        """What it asks for a turn; None where it asks for none."""
        return self.dialect.conversation(self.plain)

    @_Once
    def model(self) -> str:
        """The model that is asked for, of the stored request: a client may put anything there."""
        stored = self.stored
        return self.dialect.model(
            Request(stored.method, stored.path, stored.query, stored.headers, stored.body)
        )

    @_Once
    def normalised(self) -> Normalised:
        """The stored request, by the rules: what others are held against, and may be shown."""
        return matching.normalised(self.provider, self.stored, self.rules)

    @_Once
    def key(self) -> str:
        """The hash under which it finds its takes, whatever its credentials are."""
        if self.keyed is self.stored:
            return matching.key_of(self.normalised.document)
        return matching.key(self.provider, self.keyed, self.rules)


def without_secrets(request: StoredRequest, secrets: Iterable[bytes], mark: str) -> StoredRequest:
    """The request with `mark` for these; the same object where it holds none of them."""
    redactor = redaction.Redactor(secrets, mark)
    clean = StoredRequest(
        method=request.method,
        path=redactor.text(request.path),
        query=redactor.text(request.query),
        headers=tuple((name, redactor.text(value)) for name, value in request.headers),
        body=_body_without_secrets(request.body, redactor),
        redacted=request.redacted + redactor.count,
    )
    return clean if redactor.count else request


def _body_without_secrets(body: bytes, redactor: redaction.Redactor) -> bytes:
    r"""The body as it may be stored; a secret may also stand in it as JSON's `\u` spells it."""
    plain = redactor.whole(body)
    if b"\\u" not in plain or not redactor.has_secrets:
        return plain
    try:
        written = lenient_json.compact(lenient_json.parse(plain)).encode()
    except ValueError:
        return plain
    before = redactor.count
    again = redactor.whole(written)
    return again if redactor.count > before else plain


@dataclass(frozen=True, slots=True)
class Routing:
    """What an operator decides about calls."""

    session: str = DEFAULT_SESSION
    """That of a request that names none."""
    rules: Rules = PLAIN
    """What keys are loosened by."""


def route(
    request: Request,
    arrived: float,
    now: Callable[[], float],
    uncoded: Request | None = None,
    how: Routing = Routing(),
) -> Call:
    """The call that this request makes; `uncoded` is the same without its content coding.

    Raises `RequestRefused` for a session or provider name that is no name.
    """
    asked = uncoded or request
    ours = [pair for pair in request.headers if pair[0].lower().startswith(OUR_HEADERS)]
    if not ours and not request.path.startswith(_PREFIXES):  # nearly all of them
        provider = provider_of(asked)
        dialect = dialects.find(asked)
        return Call(request, asked, how.session, provider, dialect, arrived, now, rules=how.rules)
    match = _PREFIX.fullmatch(request.path)
    assert match is not None  # noqa: S101 # the pattern matches every path
    named = header(tuple(ours), SESSION_HEADER)
    session = _checked("session", _first(match["session"], named, how.session))
    theirs, plain = (
        replace(
            it,
            path=match["path"] or "/",
            headers=tuple(pair for pair in it.headers if pair not in ours),
        )
        for it in (request, asked)
    )
    provider = _checked("provider", _first(match["provider"], provider_of(plain)))
    call = Call(theirs, plain, session, provider, dialects.find(plain), arrived, now)
    return replace(
        call,
        scenario=(header(tuple(ours), SCENARIO_HEADER) or "").strip(),
        pace=(header(tuple(ours), PACE_HEADER) or "").strip(),
        faults=tuple(value for name, value in ours if name.lower() == FAULT_HEADER),
        rules=how.rules,
    )


def _first(*names: str | None) -> str:
    """The first name that was given; an empty one was, and is refused."""
    return next(name for name in names if name is not None)


def is_name(text: str) -> bool:
    """Whether a session or a provider can be called so: one safe segment of a path."""
    return _NAME.fullmatch(text) is not None


def _checked(what: str, name: str) -> str:
    if not is_name(name):
        raise RequestRefused(
            400,
            f"'{printable(name, _LONGEST)}' is no {what} name: use letters, digits, dot, dash and "
            f"underscore, at most {_LONGEST} of them",
        )
    return name
