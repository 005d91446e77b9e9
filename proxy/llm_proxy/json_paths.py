"""Evaluates JSONPaths of scenarios and options within a step budget.

A step is a node that an evaluation visits.  Without a limit, each `..` of a path multiplies the
work by the size of the body.  Regular expressions in filters are refused: the filter functions
have no time limit, and their patterns may even come from the request.

Importing this module takes 0.1 s: the command line imports it only where it needs it.
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

MAX_STEPS: Final = 20_000
"""Nodes that all paths evaluated for one request may visit in total; 4 to 9 µs each."""
_BUDGET_KEY: Final = "steps"


class StepBudget:
    """Limits the number of nodes that evaluations may visit."""

    def __init__(self, limit: int = MAX_STEPS) -> None:
        self._limit = self._remaining = limit

    def spend_step(self) -> None:
        """Count one visited node.  Raises `JsonPathTooManySteps` if the limit is exceeded."""
        self._remaining -= 1
        if self._remaining < 0:
            raise JsonPathTooManySteps(
                f"exceeds the limit of {self._limit:,} visited values per request"
            )


class _StepCountingNode(JSONPathMatch):
    """A visited node: the library creates its children with the same class."""

    __slots__ = ()

    def __init__(self, **fields: Any) -> None:
        fields["filter_context"][_BUDGET_KEY].spend_step()
        super().__init__(**fields)


class StepCountingPath(JSONPath):
    """A path whose evaluation counts its steps."""

    __slots__ = ()

    def finditer(
        self, data: Any, *, filter_context: Mapping[str, Any] | None = None
    ) -> Iterable[JSONPathMatch]:
        """The matches; the library's own method creates a root node that counts no steps."""
        assert filter_context is not None  # noqa: S101 # `find_nodes` and every filter pass it
        root = _StepCountingNode(
            filter_context=filter_context, obj=data, parent=None, path="$", parts=(), root=data
        )
        matches: Iterable[JSONPathMatch] = [root]
        for segment in self.segments:
            matches = segment.resolve(matches)
        return matches


class _StepCountingRelativeQuery(RelativeFilterQuery):
    __slots__ = ()

    def evaluate(self, context: FilterContext) -> object:
        context.extra_context[_BUDGET_KEY].spend_step()  # a scalar has no root node that counts it
        return super().evaluate(context)


class _FilterStepCountingParser(Parser):
    """Makes the queries in filters count their steps too."""

    def parse_absolute_query(self, stream: TokenStream) -> BaseExpression:
        query = cast("RootFilterQuery", super().parse_absolute_query(stream))
        return RootFilterQuery(StepCountingPath(env=self.env, segments=query.path.segments))

    def parse_relative_query(self, stream: TokenStream) -> BaseExpression:
        query = cast("RelativeFilterQuery", super().parse_relative_query(stream))
        return _StepCountingRelativeQuery(
            StepCountingPath(env=self.env, segments=query.path.segments)
        )


class _StepCountingEnvironment(JSONPathEnvironment):
    parser_class = _FilterStepCountingParser

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        for name in ("match", "search"):
            del self.function_extensions[name]


def compile_path(path: str) -> StepCountingPath:
    """Compile a JSONPath (RFC 9535).  Raises `ValueError` with the reason in a few words."""
    if not path.startswith("$"):
        raise ValueError("it must start with $")
    environment = _StepCountingEnvironment(strict=True)
    try:
        compiled = environment.compile(path)
    except JSONPathError as error:  # its `str()` may raise
        reason = str(error.args[0]) if error.args else "it cannot be parsed"
        if reason.startswith(("function 'match'", "function 'search'")):
            reason = "regular expressions are not supported in filters"
        raise ValueError(reason.partition("\n")[0].partition(", line ")[0]) from None
    except RecursionError:
        raise ValueError("it is too large") from None
    return StepCountingPath(env=environment, segments=cast("JSONPath", compiled).segments)


def find_nodes(path: StepCountingPath, body: Json, budget: StepBudget) -> Iterator[JSONPathMatch]:
    """The nodes that match the path; if the body is too deeply nested, only the first ones.

    Raises `JsonPathTooManySteps`.
    """
    if not isinstance(body, dict | list):
        return
    try:
        yield from path.finditer(body, filter_context={_BUDGET_KEY: budget})
    except (JSONPathError, RecursionError):
        return
