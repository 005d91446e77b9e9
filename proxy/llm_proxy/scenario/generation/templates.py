"""Fills templates: `{{ $.messages[-1].content }}` is the request's value at that path.

Between the braces is a JSONPath (RFC 9535) into the body of the request, and nothing else: no
code, and filled-in values are never parsed for templates again.  Strings are inserted as they are,
other values as compact JSON; several are joined with line ends; no match inserts nothing.
`{{ '{{' }}` is an escape for two braces.

Within JSON (such as the arguments of a call) a text that consists of one template becomes the value
itself, so a number stays a number; several values become a list, and no match becomes null.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Any, Final, cast

from llm_proxy import json_paths
from llm_proxy.dialects.lenient_json import compact_json
from llm_proxy.errors import JsonPathTooManySteps, printable_excerpt
from llm_proxy.turns import Json

JSON_FIELDS: Final = frozenset(("action_input", "arguments", "report_content_json", "values"))
"""The fields of a scenario document that hold arbitrary JSON of its author."""

_OPEN: Final = "{{"
_TEMPLATE: Final = re.compile(
    r"""
    \{\{
    (?P<path>(?:[^'"}] | \}(?!\}) | '[^'\\]*(?:\\.[^'\\]*)*' | "[^"\\]*(?:\\.[^"\\]*)*")*)
    (?: (?P<end>\}\}) | .* )
    """,
    re.DOTALL | re.VERBOSE,
)
"""Braces within quoted names of a path do not close it; an unclosed template extends to the end."""
_ESCAPED_BRACES: Final = ("'{{'", '"{{"')
"""Expressions that evaluate to two opening braces."""
_MAX_VALUES: Final = 1000
"""The most values of one template; further ones are dropped with a warning."""
_MAX_SHOWN_CHARS: Final = 60
"""The most characters of a template or an error in a message."""


def template_error(text: str) -> str | None:
    """The first error in the templates of a text, as a sentence; None if there is none."""
    for template in _TEMPLATE.finditer(text):
        try:
            _compile(template)
        except ValueError as error:
            return str(error)
    return None


def fill_templates(value: Any, body: Json) -> tuple[Json, tuple[str, ...]]:
    """Fill in every template in the texts of a value from the body of a request.

    With a sentence per template that found no value or too many.  Convert structs with
    `msgspec.to_builtins` first.  Member names and templates with a `template_error` are left
    unchanged.
    """
    filler = _TemplateFiller(body)
    return filler.fill_value(value, is_json=False), tuple(dict.fromkeys(filler.warnings))


class _TemplateFiller:
    """Fills templates from the body of one request."""

    def __init__(self, request_json: Json) -> None:
        self.warnings: list[str] = []
        self._request_json = request_json
        self._step_budget = json_paths.StepBudget()

    def fill_value(self, value: Any, *, is_json: bool) -> Any:
        """The value with its templates filled in; `is_json` within one of the `JSON_FIELDS`."""
        match value:
            case str() if _OPEN in value:
                stripped = value.strip()
                template = _TEMPLATE.match(stripped)
                if is_json and template and template.end() == len(stripped):
                    values = self._evaluate(template)
                    return values if len(values) > 1 else next(iter(values), None)
                return _TEMPLATE.sub(self._filled_text, value)
            case list() | tuple():
                return [self.fill_value(item, is_json=is_json) for item in value]
            case dict():
                return {
                    name: self.fill_value(content, is_json=is_json or name in JSON_FIELDS)
                    for name, content in value.items()
                }
            case _:
                return value

    def _filled_text(self, template: re.Match[str]) -> str:
        return "\n".join(
            value if isinstance(value, str) else compact_json(value)
            for value in self._evaluate(template)
        )

    def _evaluate(self, template: re.Match[str]) -> list[Json]:
        """The values of a template; none, with a warning, if its path finds nothing."""
        try:
            path = _compile(template)
        except ValueError:
            return [template[0]]
        if path is None:
            return [_OPEN]
        nodes = json_paths.find_nodes(path, self._request_json, self._step_budget)
        try:
            values = [cast("Json", node.value) for node in islice(nodes, _MAX_VALUES + 1)]
        except JsonPathTooManySteps as error:
            raise JsonPathTooManySteps(f"the template {_excerpt(template)} {error}") from None
        if not values:
            self.warnings.append(
                f"the template {_excerpt(template)} matches nothing in the request"
            )
        if len(values) > _MAX_VALUES:
            self.warnings.append(
                f"the template {_excerpt(template)} matches more than {_MAX_VALUES} values in the "
                f"request; only the first {_MAX_VALUES} are used"
            )
        return values[:_MAX_VALUES]


def _compile(template: re.Match[str]) -> json_paths.StepCountingPath | None:
    """The path of a template; None for an escape of braces.

    Raises `ValueError` with the template's error as a sentence.
    """
    if not template["end"]:
        raise ValueError(
            f"{_excerpt(template)} is not closed; add the missing quote or }}}}, or write "
            "{{ '{{' }} for two literal braces"
        )
    path = template["path"].strip()
    if path in _ESCAPED_BRACES:
        return None
    reason = "it must start with $, as in $.messages[-1].content"
    if path.startswith("$"):
        try:
            return json_paths.compile_path(path)
        except ValueError as error:
            reason = printable_excerpt(str(error), _MAX_SHOWN_CHARS)
    raise ValueError(f"{_excerpt(template)} is not a valid JSONPath: {reason}")


def _excerpt(template: re.Match[str]) -> str:
    """The template for a message."""
    end = template["end"] or ""
    path = template[0].removeprefix(_OPEN).removesuffix(end).strip()
    return " ".join(filter(None, (_OPEN, printable_excerpt(path, _MAX_SHOWN_CHARS), end)))
