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
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, cast

from llm_proxy import json_paths
from llm_proxy.dialects import lenient_json
from llm_proxy.errors import JsonPathTooManySteps, printable_excerpt
from llm_proxy.turns import Json

JSON_FIELDS: Final = frozenset(("action_input", "arguments", "report_content_json", "values"))
"""The fields of a scenario document that hold arbitrary JSON of its author."""

_OPEN: Final = "{{"
_CLOSE: Final = "}}"
_EXPRESSION: Final = re.compile(
    r"""(?:[^'"}]|\}(?!\})|'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*")*""", re.DOTALL
)
"""The text between the braces; braces within quoted names of a path do not close it."""
_ESCAPED_BRACES: Final = ("'{{'", '"{{"')
"""Expressions that evaluate to two opening braces."""
_MAX_VALUES: Final = 1000
"""The most values of one template; further ones are dropped with a warning."""
_MAX_SHOWN_CHARS: Final = 60
"""The most characters of a template or an error in a message."""


@dataclass(frozen=True, slots=True)
class FilledTemplates:
    """A value whose templates have been filled in."""

    value: Json
    warnings: tuple[str, ...]
    """A sentence per template that found no value or too many."""


@dataclass(frozen=True, slots=True)
class _Template:
    """One template of a text."""

    json_path: str
    """The JSONPath, without surrounding white space."""
    source: str
    """Its source text, including the braces."""
    is_closed: bool = True

    @property
    def excerpt(self) -> str:
        """The template for a message."""
        path = printable_excerpt(self.json_path, _MAX_SHOWN_CHARS)
        return " ".join(filter(None, (_OPEN, path, _CLOSE if self.is_closed else "")))

    def compile_path(self) -> json_paths.StepCountingPath:
        """The compiled path.  Raises `ValueError` with the template's error as a sentence."""
        if not self.is_closed:
            raise ValueError(
                f"{self.excerpt} is not closed: a template, and each quoted name in it, has an "
                "end; {{ '{{' }} stands for two braces"
            )
        reason = "one begins with $, as in $.messages[-1].content"
        if self.json_path.startswith("$"):
            try:
                return json_paths.compile_path(self.json_path)
            except ValueError as error:
                reason = printable_excerpt(str(error), _MAX_SHOWN_CHARS)
        raise ValueError(f"{self.excerpt} is no JSONPath: {reason}")


def template_error(text: str) -> str | None:
    """The first error in the templates of a text, as a sentence; None if there is none."""
    for segment in _split_templates(text):
        if isinstance(segment, _Template) and segment.json_path not in _ESCAPED_BRACES:
            try:
                segment.compile_path()
            except ValueError as error:
                return str(error)
    return None


def fill_templates(value: Any, body: Json) -> FilledTemplates:
    """Fill in every template in the texts of a value from the body of a request.

    Convert structs with `msgspec.to_builtins` first.  Member names and templates with a
    `template_error` are left unchanged.
    """
    filler = _TemplateFiller(body)
    return FilledTemplates(
        filler.fill_value(value, is_json=False), tuple(dict.fromkeys(filler.warnings))
    )


@dataclass(frozen=True, slots=True)
class _TemplateFiller:
    """Fills templates from the body of one request."""

    request_json: Json
    step_budget: json_paths.StepBudget = field(default_factory=json_paths.StepBudget)
    warnings: list[str] = field(default_factory=list)

    def fill_value(self, value: Any, *, is_json: bool) -> Any:
        """The value with its templates filled in; `is_json` within one of the `JSON_FIELDS`."""
        match value:
            case str() if _OPEN in value:
                return self._fill_text(value, is_json=is_json)
            case list() | tuple():
                return [self.fill_value(item, is_json=is_json) for item in value]
            case dict():
                return {
                    name: self.fill_value(content, is_json=is_json or name in JSON_FIELDS)
                    for name, content in value.items()
                }
            case _:
                return value

    def _fill_text(self, text: str, *, is_json: bool) -> Json:
        match list(_split_templates(text.strip() if is_json else text)):
            case [_Template() as template] if is_json:
                values = self._evaluate(template)
                return values if len(values) > 1 else next(iter(values), None)
        return "".join(
            "\n".join(map(_value_as_text, self._evaluate(segment)))
            if isinstance(segment, _Template)
            else segment
            for segment in _split_templates(text)
        )

    def _evaluate(self, template: _Template) -> list[Json]:
        """The values of a template; none, with a warning, if its path finds nothing."""
        if template.json_path in _ESCAPED_BRACES:
            return [_OPEN]
        try:
            path = template.compile_path()
        except ValueError:
            return [template.source]
        nodes = json_paths.find_nodes(path, self.request_json, self.step_budget)
        try:
            values = [cast("Json", node.obj) for node in islice(nodes, _MAX_VALUES + 1)]
        except JsonPathTooManySteps as error:
            raise JsonPathTooManySteps(f"the template {template.excerpt} {error}") from None
        finding = "" if values else "nothing in the request"
        if len(values) > _MAX_VALUES:
            finding = f"more than {_MAX_VALUES} values in the request: the first are taken"
        if finding:
            self.warnings.append(f"the template {template.excerpt} finds {finding}")
        return values[:_MAX_VALUES]


def _split_templates(text: str) -> Iterator[str | _Template]:
    """Split a text at its templates; an unclosed template extends to the end."""
    position = 0
    while (start := text.find(_OPEN, position)) >= 0:
        if start > position:
            yield text[position:start]
        match = _EXPRESSION.match(text, start + len(_OPEN))
        end = match.end() if match else start + len(_OPEN)
        if not text.startswith(_CLOSE, end):
            source = text[start:]
            yield _Template(source.removeprefix(_OPEN).strip(), source, is_closed=False)
            return
        position = end + len(_CLOSE)
        yield _Template(text[start + len(_OPEN) : end].strip(), text[start:position])
    if position < len(text):
        yield text[position:]


def _value_as_text(value: Json) -> str:
    return value if isinstance(value, str) else lenient_json.compact_json(value)
