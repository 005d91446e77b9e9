"""`ignore=JSONPATH`: what stands at this exact path of a JSON body does not count.

A path with `..` would reach every member of a name, also the property of a tool's schema that
happens to be called so: it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from llm_proxy.errors import UsageError, printable
from llm_proxy.matching.document import Document
from llm_proxy.matching.normalisers.kind import Kind
from llm_proxy.matching.rules import Apply, Normalised
from llm_proxy.turns import Json

if TYPE_CHECKING:
    from jsonpath import JSONPath as _Path

_SHOWN: Final = 100
"""Characters of a path in a message."""
_KEPT: Final[Gone] = {}
"""Nothing of it is to go."""


Gone: TypeAlias = dict[str | int, "Gone | None"]
"""What to take out, member by member: None is all of it."""


def _make(argument: str) -> Apply:
    path = _compiled(argument)

    def apply(document: Document) -> Normalised:
        if document.kind != "json":
            return Normalised(document)
        gone: Gone = {}
        for match in path.finditer(document.body):
            mark(gone, match.parts)
        return Normalised(replace(document, body=without(document.body, gone)))

    return apply


def mark(gone: Gone, parts: tuple[str | int, ...]) -> None:
    """Have what stands at the end of these steps go, too."""
    *way, last = parts
    for part in way:
        inner = gone.setdefault(part, {})
        if inner is None:  # all of it goes anyway
            return
        gone = inner
    gone[last] = None


def without(value: Json, gone: Gone) -> Json:
    """A value without what is to go; the rest is shared with it."""
    kept: list[tuple[str | int, Json]] = []
    pairs: Iterable[tuple[str | int, Json]] = ()
    match value:
        case dict():
            pairs = value.items()
        case list():
            pairs = enumerate(value)
        case _:
            return value
    for part, item in pairs:
        inner = gone.get(part, _KEPT)
        if inner is not None:
            kept.append((part, without(item, inner) if inner else item))
    if isinstance(value, dict):
        return {str(part): item for part, item in kept}
    return [item for _, item in kept]


def _compiled(argument: str) -> _Path:
    import jsonpath  # noqa: PLC0415 # 0.08 s, only where a rule has one
    from jsonpath.segments import JSONPathRecursiveDescentSegment  # noqa: PLC0415 # as above

    shown = printable(argument, _SHOWN)
    if not argument.startswith("$"):
        raise UsageError(f"ignore={shown}: a path begins with $, such as $.metadata.trace")
    try:
        path = jsonpath.compile(argument)
    except jsonpath.JSONPathError as error:
        why = " ".join(str(error).split("\n", 1)[0].split())
        raise UsageError(f"ignore={shown} is no JSONPath: {why}") from None
    if not isinstance(path, jsonpath.JSONPath):
        raise UsageError(f"ignore={shown} is more than one path: write a rule for each")
    if not path.segments:
        raise UsageError(f"ignore={shown} is the whole body: nothing would be left to tell apart")
    if any(isinstance(it, JSONPathRecursiveDescentSegment) for it in path.segments):
        raise UsageError(
            f"ignore={shown}: .. would reach every member of that name, wherever it stands: "
            "write the whole path, with [*] for each item of a list"
        )
    return path


IGNORE: Final = Kind(
    name="ignore",
    version=1,
    overlooks="what stands at a path",
    make=_make,
    takes="a JSONPath",
    example="$.metadata.trace",
)
