"""`ignore=JSONPATH`: removes what stands at one exact path of a JSON body.

A member goes with its name.  An item of a list leaves its place, so that the paths behind it stay
what they were: of two rules, `$.messages[0]` and `$.messages[1]`, each means what it says.

A path with `..` would reach every member of a name, also the property of a tool's schema that
happens to be called so: it is refused.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from llm_proxy.errors import JsonPathTooManySteps, UsageError, printable
from llm_proxy.matching.document import KeyDocument
from llm_proxy.matching.normalisers.definition import NormaliserKind
from llm_proxy.matching.rules import Apply, NormalizedDocument
from llm_proxy.turns import Json

if TYPE_CHECKING:
    from llm_proxy.json_paths import CountedPath

_SHOWN: Final = 100
"""Characters of a path in a message."""
_WHOLE: Final = frozenset(("$.*", "$[*]"))
_STEPS: Final = 500_000
"""Values that may be visited for one document; what would be found beyond that stays."""
_PLACE: Final = "<ignored>"
"""What an item of a list leaves."""
_KEPT: Final[Gone] = {}
"""Nothing of it is to go."""


Gone: TypeAlias = dict[str | int, "Gone | None"]
"""What to take out, member by member: None is all of it."""


def _make_rule(argument: str) -> Apply:
    from llm_proxy import json_paths  # noqa: PLC0415 # 0.08 s, only where a rule has a path

    path = _parse_path(argument)

    def apply(document: KeyDocument) -> NormalizedDocument:
        if document.kind != "json" or not isinstance(document.body, dict | list):
            return NormalizedDocument(document)
        removed: Gone = {}
        steps = json_paths.StepBudget(_STEPS)
        with suppress(JsonPathTooManySteps):
            for match in json_paths.find_nodes(path, document.body, steps):
                mark_ignored(removed, match.parts)
        return NormalizedDocument(replace(document, body=without_ignored(document.body, removed)))

    return apply


def mark_ignored(removed: Gone, parts: tuple[str | int, ...]) -> None:
    """Have what stands at the end of these steps go, too."""
    *way, last = parts
    for part in way:
        inner = removed.setdefault(part, {})
        if inner is None:  # all of it goes anyway
            return
        removed = inner
    removed[last] = None


def without_ignored(value: Json, removed: Gone) -> Json:
    """A value without what is to go; the rest is shared with it."""
    match value:
        case dict():
            return {
                name: without_ignored(item, inner) if (inner := removed.get(name, _KEPT)) else item
                for name, item in value.items()
                if removed.get(name, _KEPT) is not None
            }
        case list():
            return [
                _ignored_child(item, removed.get(place, _KEPT)) for place, item in enumerate(value)
            ]
        case _:
            return value


def _ignored_child(item: Json, removed: Gone | None) -> Json:
    if removed is None:
        return _PLACE
    return without_ignored(item, removed) if removed else item


def _parse_path(argument: str) -> CountedPath:
    from jsonpath.segments import JSONPathRecursiveDescentSegment  # noqa: PLC0415 # 0.08 s, only where a rule has one

    from llm_proxy import json_paths  # noqa: PLC0415 # as above

    shown = printable(argument, _SHOWN)
    if not argument.startswith("$"):
        raise UsageError(f"ignore={shown}: a path begins with $, such as $.metadata.trace")
    try:
        path = json_paths.compile_path(argument)
    except ValueError as error:
        raise UsageError(f"ignore={shown} is no JSONPath (RFC 9535): {error}") from None
    if not path.segments or argument.strip() in _WHOLE:
        raise UsageError(f"ignore={shown} is the whole body: nothing would be left to tell apart")
    if any(isinstance(segment, JSONPathRecursiveDescentSegment) for segment in path.segments):
        raise UsageError(
            f"ignore={shown}: .. would reach every member of that name, wherever it stands: "
            "write the whole path, with [*] for each item of a list"
        )
    return path


IGNORE: Final = NormaliserKind(
    name="ignore",
    version=1,
    ignores="what stands at a path",
    make_rule_of=_make_rule,
    argument_name="a JSONPath",
    example="$.metadata.trace",
)
