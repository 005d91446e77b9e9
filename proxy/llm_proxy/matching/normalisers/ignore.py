"""`ignore=JSONPATH`: removes the values at a path of a JSON body.

A member is removed with its name.  An item of a list is replaced by a placeholder, so that later
indexes stay valid: the rules `$.messages[0]` and `$.messages[1]` can be combined.

A path with `..` is refused: it would reach every member with a name, including a property of a
tool's schema that happens to have it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from llm_proxy.errors import JsonPathTooManySteps, UsageError, printable_excerpt
from llm_proxy.matching.key_documents import KeyDocument
from llm_proxy.matching.rules import ApplyRule, NormaliserDefinition, NormalizedDocument
from llm_proxy.turns import Json

if TYPE_CHECKING:
    from llm_proxy.json_paths import StepCountingPath

_MAX_SHOWN_CHARS: Final = 100
"""The most characters of a path that an error message quotes."""
_WHOLE_BODY_PATHS: Final = frozenset(("$.*", "$[*]"))
_MAX_STEPS: Final = 500_000
"""Values that may be visited for one document; matches beyond that are kept."""
_ITEM_PLACEHOLDER: Final = "<ignored>"
"""Replaces a removed item of a list."""
_NOTHING_REMOVED: Final[RemovalTree] = {}
"""Removes nothing."""


RemovalTree: TypeAlias = dict[str | int, "RemovalTree | None"]
"""The values to remove, by member or index: None removes the whole value."""


def _make_document_normaliser(argument: str) -> ApplyRule:
    from llm_proxy import json_paths  # noqa: PLC0415 # 0.08 s, only where a rule has a path

    path = _parse_path(argument)

    def apply(document: KeyDocument) -> NormalizedDocument:
        if document.body_kind != "json" or not isinstance(document.body, dict | list):
            return NormalizedDocument(document)
        removals: RemovalTree = {}
        budget = json_paths.StepBudget(_MAX_STEPS)
        with suppress(JsonPathTooManySteps):
            for match in json_paths.find_nodes(path, document.body, budget):
                add_ignored_path(removals, match.parts)
        return NormalizedDocument(replace(document, body=without_ignored(document.body, removals)))

    return apply


def add_ignored_path(removals: RemovalTree, path_steps: tuple[str | int, ...]) -> None:
    """Add the value at a path, given as members and indexes, to those to remove."""
    *parent_steps, last = path_steps
    for step in parent_steps:
        inner = removals.setdefault(step, {})
        if inner is None:  # removed as a whole already
            return
        removals = inner
    removals[last] = None


def without_ignored(value: Json, removals: RemovalTree) -> Json:
    """A copy of a value without the values to remove; unchanged parts are shared."""
    if not removals:
        return value
    match value:
        case dict():
            return {
                name: without_ignored(item, inner)
                for name, item in value.items()
                if (inner := removals.get(name, _NOTHING_REMOVED)) is not None
            }
        case list():
            return [
                _ITEM_PLACEHOLDER
                if (inner := removals.get(place, _NOTHING_REMOVED)) is None
                else without_ignored(item, inner)
                for place, item in enumerate(value)
            ]
        case _:
            return value


def _parse_path(argument: str) -> StepCountingPath:
    from jsonpath.segments import JSONPathRecursiveDescentSegment  # noqa: PLC0415 # 0.08 s, only where a rule has one

    from llm_proxy import json_paths  # noqa: PLC0415 # as above

    shown = printable_excerpt(argument, _MAX_SHOWN_CHARS)
    if not argument.startswith("$"):
        raise UsageError(f"ignore={shown}: a path begins with $, such as $.metadata.trace")
    try:
        path = json_paths.compile_path(argument)
    except ValueError as error:
        raise UsageError(f"ignore={shown} is no JSONPath (RFC 9535): {error}") from None
    if not path.segments or argument.strip() in _WHOLE_BODY_PATHS:
        raise UsageError(f"ignore={shown} is the whole body: nothing would be left to tell apart")
    if any(isinstance(segment, JSONPathRecursiveDescentSegment) for segment in path.segments):
        raise UsageError(
            f"ignore={shown}: .. would reach every member of that name, wherever it stands: "
            "write the whole path, with [*] for each item of a list"
        )
    return path


IGNORE: Final = NormaliserDefinition(
    "ignore",
    1,
    _make_document_normaliser,
    argument_description="a JSONPath",
    example_argument="$.metadata.trace",
)
