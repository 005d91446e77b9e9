"""Every exception that the package raises on purpose.

    LlmProxyError
    ├── UsageError          the operator's settings, arguments or environment   -> exit code 2
    ├── CassetteError       an invalid cassette, with file and line
    │   └── CassetteTooNew  written by a later version of this tool
    ├── SpoolError          the recording cannot be written (disk full, no permission)
    │   └── SecretNotReplaced  a secret in it cannot be replaced
    ├── RequestRefused      a request that the proxy does not serve     -> its HTTP status
    │   └── NotSimulated    one that cannot be scripted or synthesised  -> 404 or 400
    ├── LateRequest         a request of a test that has ended          -> 424
    ├── UpstreamFailed      no response from the provider               -> 502, 504, 508
    ├── NotRepresentable    a turn that the dialect cannot represent
    │   └── SchemaNotSatisfiable  a JSON Schema that no generated value satisfies
    ├── PatternsTooSlow     a pattern of a scenario takes too long      -> a mismatch
    ├── JsonPathTooManySteps  a JSONPath visits too much of a request   -> a mismatch
    ├── RespondFunctionFailed  the operator's own function failed       -> 500
    ├── ScriptExhausted     a script has no response left               -> 424
    └── Miss                no cassette answers this request            -> 424

A message names the thing, the place and the next step.  An error is raised where it is detected
and translated once at the boundary: by the server into the dialect's own error shape, by the
command line into one sentence and an exit code.
"""

from __future__ import annotations

from collections.abc import Iterable

from llm_proxy.miss_report import MissReport


def escape_character(character: str) -> str:
    r"""A character as a Python escape sequence: `\n`, `\x1b`, `\u202e`."""
    return ascii(character)[1:-1]


def printable_excerpt(text: str, max_chars: int) -> str:
    """`text` for an error message: unprintable characters escaped, at most `max_chars` long.

    Text from files and requests may hold line ends, escape sequences and direction marks: they
    are escaped.  For recorded text, whose lines, joined emoji and columns matter, use `display`.
    """
    shown = "".join(
        character if character.isprintable() else escape_character(character)
        for character in text[: max_chars + 1]
    )
    return shown if len(shown) <= max_chars else shown[: max_chars - 1] + "…"


def name_hint(
    name: str,
    known_names: Iterable[str],
    otherwise: str | None = None,
    *,
    shared_prefix: str = "",
) -> str:
    """A hint for an unknown name: the nearest known one; else `otherwise`, or by default all.

    `shared_prefix` begins every name, and so does not count as similarity.
    """
    from difflib import get_close_matches  # noqa: PLC0415 # 5 ms, only where a name is wrong

    known_names = list(known_names)
    known_stems = [known_name.removeprefix(shared_prefix) for known_name in known_names]
    if close_stems := get_close_matches(name.removeprefix(shared_prefix), known_stems, 1):
        return f"did you mean '{shared_prefix}{close_stems[0]}'?"
    return f"known: {', '.join(known_names)}" if otherwise is None else otherwise


class LlmProxyError(Exception):
    """The base class: its message is written for the operator."""


class UsageError(LlmProxyError):
    """Wrong settings, arguments or environment: the command line exits with 2."""


class CassetteError(LlmProxyError):
    """An invalid cassette: it is refused with file and line, never served in part."""

    def __init__(self, file: str, line: int | None, reason: str) -> None:
        self.file = file
        self.line = line
        self.reason = reason
        location = printable_excerpt(file, 1000) + ("" if line is None else f":{line}")
        super().__init__(f"{location}: {printable_excerpt(reason, 500)}")


class CassetteTooNew(CassetteError):
    """The file's format is newer than this tool reads."""


class SpoolError(LlmProxyError):
    """A recording could not be written; the client's stream is not affected."""


class SecretNotReplaced(SpoolError):
    """A recording is not stored, because a secret in it cannot be replaced."""


class RequestRefused(LlmProxyError):
    """A request that is not served, with the HTTP status of the error response."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class NotSimulated(RequestRefused):
    """A request that simulation cannot answer: neither for a turn nor of another known kind."""

    def __init__(self, message: str, status: int = 404) -> None:
        super().__init__(status, message)


class LateRequest(LlmProxyError):
    """A request that arrived after its test had ended, or while no test was running."""


class UpstreamFailed(LlmProxyError):
    """No response from the provider: connection refused, unresolvable, timed out, or not HTTP."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


class NotRepresentable(LlmProxyError):
    """A turn that the dialect cannot represent without changing it."""


class PatternsTooSlow(LlmProxyError):
    """Matching a request against the patterns of scenarios took too long."""


class JsonPathTooManySteps(LlmProxyError):
    """A JSONPath visits more values of a request than its budget allows."""


class RespondFunctionFailed(LlmProxyError):
    """The operator's own function that responds for a mock failed."""


class ScriptExhausted(LlmProxyError):
    """More requests than a script has responses; reported as an error to the script's author."""


class SchemaNotSatisfiable(NotRepresentable):
    """A JSON Schema that no value satisfies, or that uses unsupported keywords."""


class Miss(LlmProxyError):
    """No cassette answers this request; the message names the nearest and what differs."""

    def __init__(self, message: str, detail: str, report: MissReport | None = None) -> None:
        self.detail = detail
        self.report = report or MissReport(text=detail)
        super().__init__(message)
