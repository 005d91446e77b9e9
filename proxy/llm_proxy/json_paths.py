"""Evaluates JSONPaths of scenarios and options within a step budget.

A step is a node that an evaluation visits.  Without a limit, each `..` of a path multiplies the
work by the size of the body.  Regular expressions in filters are refused: the filter functions
have no time limit, and their patterns may even come from the request.

Importing this module takes a tenth of a second: the command line imports it where it needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from jsonpath import JSONPath, JSONPathEnvironment, JSONPathError, JSONPathMatch
from jsonpath.filter import (
    BaseExpression,
    RelativeFilterQuery,
    RootFilterQuery,
)
from jsonpath.parse import Parser
from jsonpath.selectors import FilterContext
from jsonpath.stream import TokenStream

from llm_proxy.errors import JsonPathTooManySteps
from llm_proxy.turns import Json

MOST_STEPS: Final = 20_000
"""Nodes that the paths of one request may visit together, each path once; 4 to 9 µs each."""
_STEPS: Final = "steps"


class StepBudget:
    """How many nodes may still be visited."""

    def __init__(self, most: int = MOST_STEPS) -> None:
        self._limit = self._remaining = most

    def spend_one(self) -> None:
        """Visit a node.  Raises `JsonPathTooManySteps`."""
        self._remaining -= 1
        if self._remaining < 0:
            raise JsonPathTooManySteps(
                f"is the last of several that visit more than {self._limit:,} values of the request"
            )


class _CountedNode(JSONPathMatch):
    """A visited node: the library makes its children of the same class."""

    __slots__ = ()

    def __init__(self, **fields: Any) -> None:
        fields["filter_context"][_STEPS].spend_one()
        super().__init__(**fields)


class CountedPath(JSONPath):
    """A path whose evaluation counts its steps."""

    __slots__ = ()

    def finditer(
        self, data: Any, *, filter_context: Mapping[str, Any] | None = None
    ) -> Iterable[JSONPathMatch]:
        """The matches; the library's own method makes a root node that counts nothing."""
        assert filter_context is not None  # noqa: S101 # `nodes` and every filter give it
        root = _CountedNode(
            filter_context=filter_context, obj=data, parent=None, path="$", parts=(), root=data
        )
        matches: Iterable[JSONPathMatch] = [root]
        for segment in self.segments:
            matches = segment.resolve(matches)
        return matches


class _CountedRelativeQuery(RelativeFilterQuery):
    __slots__ = ()

    def evaluate(self, context: FilterContext) -> object:
        context.extra_context[_STEPS].spend_one()  # a scalar has no root node that does
        return super().evaluate(context)


class _CountingParser(Parser):
    """Has the queries of filters count their steps, too."""

    def parse_absolute_query(self, stream: TokenStream) -> BaseExpression:
        query = cast("RootFilterQuery", super().parse_absolute_query(stream))
        return RootFilterQuery(CountedPath(env=self.env, segments=query.path.segments))

    def parse_relative_query(self, stream: TokenStream) -> BaseExpression:
        query = cast("RelativeFilterQuery", super().parse_relative_query(stream))
        return _CountedRelativeQuery(CountedPath(env=self.env, segments=query.path.segments))


class _CountingEnvironment(JSONPathEnvironment):
    parser_class = _CountingParser

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        for name in ("match", "search"):
            del self.function_extensions[name]


def compile_path(path: str) -> CountedPath:
    """The path, of RFC 9535.  Raises `ValueError` with the reason in a few words."""
    if not path.startswith("$"):
        raise ValueError("it begins with no $")
    environment = _CountingEnvironment(strict=True)
    try:
        found = environment.compile(path)
    except JSONPathError as error:  # its own text may fail to be made
        why = str(error.args[0]) if error.args else "it cannot be read"
        if why.startswith(("function 'match'", "function 'search'")):
            why = "filters have no regular expressions"
        raise ValueError(why.partition("\n")[0].partition(", line ")[0]) from None
    except RecursionError:
        raise ValueError("it is too large") from None
    return CountedPath(env=environment, segments=cast("JSONPath", found).segments)


def find_nodes(path: CountedPath, body: Json, steps: StepBudget) -> Iterator[JSONPathMatch]:
    """What the path finds; of a body that is too deep for it, what it has found until then.

    Raises `JsonPathTooManySteps`.
    """
    if not isinstance(body, dict | list):
        return
    try:
        yield from path.finditer(body, filter_context={_STEPS: steps})
    except (JSONPathError, RecursionError):
        return
