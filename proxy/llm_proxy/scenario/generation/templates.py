"""Fills templates: `{{ $.messages[-1].content }}` is the request's value at that path.

Between the braces stands a JSONPath (RFC 9535) into the body of the request, and nothing else: no
code, and what it finds is never read as a template again.  Strings are taken as they are, other
values as compact JSON; several are joined with line ends; where nothing is found, nothing is put.
`{{ '{{' }}` stands for two braces.

Within JSON (the arguments of a call, say) a text that is one template alone becomes the value
itself, so a number stays one; several become a list, and none becomes null.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, cast

from llm_proxy import json_paths
from llm_proxy.dialects import lenient_json
from llm_proxy.errors import JsonPathTooManySteps, printable
from llm_proxy.turns import Json

JSON_FIELDS: Final = frozenset(("action_input", "arguments", "report_content_json", "values"))
"""The fields of a document that hold JSON of the author's own."""

_OPEN: Final = "{{"
_CLOSE: Final = "}}"
_INSIDE: Final = re.compile(
    r"""(?:[^'"}]|\}(?!\})|'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*")*""", re.DOTALL
)
"""What is between the braces; those within the quoted names of a path end nothing."""
_BRACES: Final = ("'{{'", '"{{"')
"""What stands for two braces."""
_MOST: Final = 1000
"""Values that a path may find."""
_SHOWN: Final = 60
"""Characters of a template that a message shows."""


@dataclass(frozen=True, slots=True)
class FilledTemplates:
    """A value whose templates have been filled in."""

    fill_value: Json
    warnings: tuple[str, ...]
    """Each path that found nothing, in a sentence."""


@dataclass(frozen=True, slots=True)
class _TemplateExpression:
    """A template amid a text."""

    path: str
    """Without the blanks around it."""
    spelled: str
    """As it stands in the text, its braces too."""
    is_closed: bool = True


def template_mistake(text: str) -> str | None:
    """What is wrong with the templates of this text, in a sentence; None where nothing is."""
    for piece in _split_templates(text):
        match piece:
            case _TemplateExpression(path=path, is_closed=False):
                return (
                    f"{_quoted_path(path)} is not closed: a template, and each quoted name in "
                    f"it, has "
                    "an end; {{ '{{' }} stands for two braces"
                )
            case _TemplateExpression(path=path) if path not in _BRACES:
                if isinstance(why := _compile_path(path), str):
                    return f"{_quoted_path(path, _CLOSE)} is no JSONPath: {why}"
    return None


def fill_templates(value: Any, body: Json) -> FilledTemplates:
    """A value of a document with every template in its texts filled in from a request's body.

    Of a struct, the value is what `msgspec.to_builtins` gives.  Names of objects are left alone,
    and so is what `mistakes` finds wrong.
    """
    filling = _TemplateFiller(body)
    return FilledTemplates(
        filling.fill_value(value, is_json=False), tuple(dict.fromkeys(filling.warnings))
    )


@dataclass(frozen=True, slots=True)
class _TemplateFiller:
    """One request's body, on its way into the texts of an answer."""

    body: Json
    steps: json_paths.StepBudget = field(default_factory=json_paths.StepBudget)
    warnings: list[str] = field(default_factory=list)

    def fill_value(self, value: Any, *, is_json: bool) -> Any:
        """The value, filled in; `is_json` within JSON of the author's own."""
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
            case [_TemplateExpression() as alone] if is_json:
                found = self._evaluate(alone)
                return found if len(found) > 1 else next(iter(found), None)
        return "".join(
            "\n".join(map(_value_as_text, self._evaluate(split_template)))
            if isinstance(split_template, _TemplateExpression)
            else split_template
            for split_template in _split_templates(text)
        )

    def _evaluate(self, hole: _TemplateExpression) -> list[Json]:
        """What a template stands for; nothing, with a warning, where its path finds nothing."""
        if hole.path in _BRACES:
            return [_OPEN]
        path = _compile_path(hole.path) if hole.is_closed else ""
        if isinstance(path, str):
            return [hole.spelled]
        nodes = json_paths.find_nodes(path, self.body, self.steps)
        try:
            found = [
                cast("Json", json_path_match.obj) for json_path_match in islice(nodes, _MOST + 1)
            ]
        except JsonPathTooManySteps as error:
            raise JsonPathTooManySteps(
                f"the template {_quoted_path(hole.path, _CLOSE)} {error}"
            ) from None
        if len(found) > _MOST:
            self._add_warning(hole, f"more than {_MOST} values in the request: the first are taken")
        if not found:
            self._add_warning(hole, "nothing in the request")
        return found[:_MOST]

    def _add_warning(self, hole: _TemplateExpression, found: str) -> None:
        self.warnings.append(f"the template {_quoted_path(hole.path, _CLOSE)} finds {found}")


def _split_templates(text: str) -> Iterator[str | _TemplateExpression]:
    """The text cut at its templates; one that is not closed reaches to the end."""
    at = 0
    while (start := text.find(_OPEN, at)) >= 0:
        if start > at:
            yield text[at:start]
        inside = _INSIDE.match(text, start + len(_OPEN))
        end = inside.end() if inside else start + len(_OPEN)
        if not text.startswith(_CLOSE, end):
            yield _TemplateExpression(
                text[start + len(_OPEN) :].strip(), text[start:], is_closed=False
            )
            return
        at = end + len(_CLOSE)
        yield _TemplateExpression(text[start + len(_OPEN) : end].strip(), text[start:at])
    if at < len(text):
        yield text[at:]


def _value_as_text(value: Json) -> str:
    return value if isinstance(value, str) else lenient_json.compact_json(value)


def _compile_path(path: str) -> json_paths.CountedPath | str:
    if not path.startswith("$"):
        return "one begins with $, as in $.messages[-1].content"
    try:
        return json_paths.compile_path(path)
    except ValueError as error:
        return printable(str(error), _SHOWN)


def _quoted_path(path: str, close: str = "") -> str:
    return " ".join(text for text in (_OPEN, printable(path, _SHOWN), close) if text)
