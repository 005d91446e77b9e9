"""Every exception that the package raises on purpose.

    LlmProxyError
    ├── UsageError          the operator's settings, arguments or environment   -> exit code 2
    ├── CassetteError       a file that cannot be trusted, with file and line
    │   └── CassetteTooNew  written by a later version of this tool
    ├── SpoolError          the recording cannot be kept up (disk full, no rights)
    ├── RequestRefused      a request that we do not serve              -> its HTTP status
    │   └── NotSimulated    one that nothing can be scripted or made up for  -> 404 or 400
    ├── UpstreamFailed      no answer from the provider                 -> 502, 504, 508
    ├── NotRepresentable    a turn that the dialect cannot represent
    │   └── SchemaNotSatisfiable  a JSON Schema that no generated value satisfies
    ├── PatternsTooSlow     a pattern of a scenario takes too long      -> an error turn
    ├── JsonPathTooManySteps  a JSONPath visits too much of a request   -> an error turn
    ├── RespondFunctionFailed  the operator's own function failed       -> 500
    ├── ScriptExhausted     a script has no response left               -> 424
    └── Miss                no cassette answers this request            -> 424

A message names the thing, the place and the next step.  It is raised where it is known, and
translated once at the border: by the server into the dialect's own error shape, by the
command line into one sentence and an exit code.
"""

from __future__ import annotations

from llm_proxy.miss_report import MissReport


def escape_character(character: str) -> str:
    r"""What stands for a character that is not shown as it is: `\n`, `\x1b`, `\u202e`."""
    return ascii(character)[1:-1]


def printable(text: str, limit: int) -> str:
    """`text` fit for a message: of printable characters alone, and at most `limit` of them.

    What comes from files and requests may hold line ends, escape sequences and marks that turn
    the direction of writing: they are spelled out.  `display` shows what was recorded instead,
    whose lines, joined emoji and columns count.
    """
    shown = "".join(
        content if content.isprintable() else escape_character(content)
        for content in text[: limit + 1]
    )
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


class LlmProxyError(Exception):
    """The root: its message is written for the person who reads it."""


class UsageError(LlmProxyError):
    """Wrong settings, arguments or environment: the command line exits with 2."""


class CassetteError(LlmProxyError):
    """A cassette that cannot be trusted is refused by name, never served in part."""

    def __init__(self, file: str, line: int | None, why: str) -> None:
        self.file = file
        self.line = line
        self.why = why
        place = printable(file, 1000) + ("" if line is None else f":{line}")
        super().__init__(f"{place}: {printable(why, 500)}")


class CassetteTooNew(CassetteError):
    """The file's format is newer than this tool reads."""


class SpoolError(LlmProxyError):
    """A recording could not be written down; the client's stream is not affected."""


class RequestRefused(LlmProxyError):
    """A request that is not served at all, with the HTTP status that says so."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class NotSimulated(RequestRefused):
    """A request that only its provider could answer: no turn, and nothing that is known beside."""

    def __init__(self, message: str, status: int = 404) -> None:
        super().__init__(status, message)


class UpstreamFailed(LlmProxyError):
    """The provider gave no answer: refused, unresolvable, silent, or not speaking HTTP."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class NotRepresentable(LlmProxyError):
    """A turn that would not be the same answer in this dialect."""


class PatternsTooSlow(LlmProxyError):
    """The patterns that were tried on a request took too long."""


class JsonPathTooManySteps(LlmProxyError):
    """A JSONPath visits more values of a request than it may."""


class RespondFunctionFailed(LlmProxyError):
    """The operator's own function, which says what a mock answers, failed."""


class ScriptExhausted(LlmProxyError):
    """More was asked than a script has answers for: its author should hear of it, loudly."""


class SchemaNotSatisfiable(NotRepresentable):
    """A JSON Schema that no value fits, or that asks for more than is understood."""


class Miss(LlmProxyError):
    """No cassette answers this request; the message says what is nearest and what differs."""

    def __init__(self, message: str, detail: str, missed: MissReport | None = None) -> None:
        self.detail = detail
        self.missed = missed or MissReport(text=detail)
        super().__init__(message)
