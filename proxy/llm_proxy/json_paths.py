"""Evaluates JSONPaths of scenarios and options within a step budget.

A step is a value that an evaluation visits or that a filter tests.  Without a limit, each `..` of a
path multiplies the work by the size of the body.  Regular expressions in filters are refused: the
filter functions have no time limit, and their patterns may even come from the request.

Importing this module takes 0.03 s: the command line imports it only where it needs it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NewType, cast

from jsonpath_rfc9535 import (
    JSONPathEnvironment,
    JSONPathError,
    JSONPathNode,
    JSONPathNodeList,
    JSONPathQuery,
    Parser,
)
from jsonpath_rfc9535.filter_expressions import (
    Expression,
    FilterContext,
    FilterExpression,
    RelativeFilterQuery,
    RootFilterQuery,
)
from jsonpath_rfc9535.selectors import FilterSelector
from jsonpath_rfc9535.tokens import TokenStream

from llm_proxy.errors import JsonPathTooManySteps
from llm_proxy.turns import Json

MAX_STEPS: Final = 20_000
"""Nodes that all paths evaluated for one request may visit in total; 1 to 2 µs each."""
_MAX_PATH_CHARS: Final = 2000
"""The most characters of a path: Python crashes if too many of its segments wait for each other."""


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


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """Stands for the root in nodes and filters: the library carries no other value to both."""

    body: Json
    budget: StepBudget
    nodes_by_query_id: dict[int, JSONPathNodeList] = field(default_factory=dict)
    """What each query in a filter finds from the root: the same for every tested value."""


class _StepCountingNode(JSONPathNode):
    """A visited node: the library creates its children with `new_child`."""

    __slots__ = ()

    def __init__(self, value: object, location: tuple[int | str, ...], root: Any) -> None:
        root.budget.spend_step()
        super().__init__(value=value, location=location, parent=None, root=root)

    def new_child(
        self, value: object, key: int | str, _parent: JSONPathNode | None
    ) -> JSONPathNode:
        return _StepCountingNode(value, (*self.location, key), self.root)


def _resolve(query: JSONPathQuery, start: object, root: Any) -> Iterable[JSONPathNode]:
    """The matches; the library's own method creates a root node that counts no steps."""
    nodes: Iterable[JSONPathNode] = [_StepCountingNode(start, (), root)]
    for segment in query.segments:
        nodes = segment.resolve(nodes)
    return nodes


class _RelativeQuery(RelativeFilterQuery):
    __slots__ = ()

    def evaluate(self, context: FilterContext) -> object:
        return JSONPathNodeList(_resolve(self.query, context.current, context.root))


class _RootQuery(RootFilterQuery):
    __slots__ = ()

    def evaluate(self, context: FilterContext) -> object:
        root = cast("Any", context.root)
        if id(self) not in root.nodes_by_query_id:  # the hash of a query is slow
            nodes = JSONPathNodeList(_resolve(self.query, root.body, root))
            root.nodes_by_query_id[id(self)] = nodes
        return root.nodes_by_query_id[id(self)]


class _StepCountingFilter(FilterExpression):
    """Counts each tested value: a filter without a query, such as `1 == 1`, visits no node."""

    __slots__ = ()

    def evaluate(self, context: FilterContext) -> bool:
        cast("Any", context.root).budget.spend_step()
        return super().evaluate(context)


class _StepCountingParser(Parser):
    """Makes filters and their queries count their steps too."""

    def parse_filter_selector(self, stream: TokenStream) -> FilterSelector:
        selector = super().parse_filter_selector(stream)
        expression = selector.expression
        selector.expression = _StepCountingFilter(expression.token, expression.expression)
        return selector

    def parse_root_query(self, stream: TokenStream) -> Expression:
        query = cast("RootFilterQuery", super().parse_root_query(stream))
        return _RootQuery(query.token, query.query)

    def parse_relative_query(self, stream: TokenStream) -> Expression:
        query = cast("RelativeFilterQuery", super().parse_relative_query(stream))
        return _RelativeQuery(query.token, query.query)


class _StepCountingEnvironment(JSONPathEnvironment):
    parser_class = _StepCountingParser

    def setup_function_extensions(self) -> None:
        super().setup_function_extensions()
        for name in ("match", "search"):
            del self.function_extensions[name]


StepCountingPath = NewType("StepCountingPath", JSONPathQuery)
"""A compiled path, for `find_nodes`: the library's own methods cannot evaluate its filters."""


def compile_path(path: str) -> StepCountingPath:
    """Compile a JSONPath (RFC 9535).  Raises `ValueError` with the reason in a few words."""
    if not path.startswith("$"):
        raise ValueError("it must start with $")
    if len(path) > _MAX_PATH_CHARS:
        raise ValueError("it is too large")
    try:
        return StepCountingPath(_StepCountingEnvironment().compile(path))
    except JSONPathError as error:  # its `str()` may raise
        reason = str(error.args[0]) if error.args else "it cannot be parsed"
        if reason.startswith(("function 'match'", "function 'search'")):
            reason = "regular expressions are not supported in filters"
        raise ValueError(reason.partition("\n")[0]) from None
    except (RecursionError, OverflowError, ValueError):  # nesting, or a number's digits
        raise ValueError("it is too large") from None


def find_nodes(path: StepCountingPath, body: Json, budget: StepBudget) -> Iterator[JSONPathNode]:
    """The nodes that match the path; if the body is too deeply nested, only the first ones.

    Raises `JsonPathTooManySteps`.
    """
    if not isinstance(body, dict | list):
        return
    try:
        yield from _resolve(path, body, _Evaluation(body, budget))
    except (JSONPathError, RecursionError):
        return
