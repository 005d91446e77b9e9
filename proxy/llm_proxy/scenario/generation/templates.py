"""Templates: `{{ $.messages[-1].content }}` in a text stands for what the request has there.

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
from llm_proxy.errors import TooManySteps, printable
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
class Filled:
    """A value whose templates have been filled in."""

    value: Json
    warnings: tuple[str, ...]
    """Each path that found nothing, in a sentence."""


@dataclass(frozen=True, slots=True)
class _Hole:
    """A template amid a text."""

    path: str
    """Without the blanks around it."""
    spelled: str
    """As it stands in the text, its braces too."""
    is_closed: bool = True


def mistakes(text: str) -> str | None:
    """What is wrong with the templates of this text, in a sentence; None where nothing is."""
    for piece in _pieces(text):
        match piece:
            case _Hole(path=path, is_closed=False):
                return (
                    f"{_shown(path)} is not closed: a template, and each quoted name in it, has "
                    "an end; {{ '{{' }} stands for two braces"
                )
            case _Hole(path=path) if path not in _BRACES:
                if isinstance(why := _compiled(path), str):
                    return f"{_shown(path, _CLOSE)} is no JSONPath: {why}"
    return None


def filled(value: Any, body: Json) -> Filled:
    """A value of a document with every template in its texts filled in from a request's body.

    Of a struct, the value is what `msgspec.to_builtins` gives.  Names of objects are left alone,
    and so is what `mistakes` finds wrong.
    """
    filling = _Filling(body)
    return Filled(filling.value(value, is_json=False), tuple(dict.fromkeys(filling.warnings)))


@dataclass(frozen=True, slots=True)
class _Filling:
    """One request's body, on its way into the texts of an answer."""

    body: Json
    steps: json_paths.Steps = field(default_factory=json_paths.Steps)
    warnings: list[str] = field(default_factory=list)

    def value(self, value: Any, *, is_json: bool) -> Any:
        """The value, filled in; `is_json` within JSON of the author's own."""
        match value:
            case str() if _OPEN in value:
                return self._text(value, is_json=is_json)
            case list() | tuple():
                return [self.value(item, is_json=is_json) for item in value]
            case dict():
                return {
                    name: self.value(it, is_json=is_json or name in JSON_FIELDS)
                    for name, it in value.items()
                }
            case _:
                return value

    def _text(self, text: str, *, is_json: bool) -> Json:
        match list(_pieces(text.strip() if is_json else text)):
            case [_Hole() as alone] if is_json:
                found = self._found(alone)
                return found if len(found) > 1 else next(iter(found), None)
        return "".join(
            "\n".join(map(_spelled, self._found(it))) if isinstance(it, _Hole) else it
            for it in _pieces(text)
        )

    def _found(self, hole: _Hole) -> list[Json]:
        """What a template stands for; nothing, with a warning, where its path finds nothing."""
        if hole.path in _BRACES:
            return [_OPEN]
        path = _compiled(hole.path) if hole.is_closed else ""
        if isinstance(path, str):
            return [hole.spelled]
        nodes = json_paths.nodes(path, self.body, self.steps)
        try:
            found = [cast("Json", it.obj) for it in islice(nodes, _MOST + 1)]
        except TooManySteps as error:
            raise TooManySteps(f"the template {_shown(hole.path, _CLOSE)} {error}") from None
        if len(found) > _MOST:
            self._warn(hole, f"more than {_MOST} values in the request: the first are taken")
        if not found:
            self._warn(hole, "nothing in the request")
        return found[:_MOST]

    def _warn(self, hole: _Hole, found: str) -> None:
        self.warnings.append(f"the template {_shown(hole.path, _CLOSE)} finds {found}")


def _pieces(text: str) -> Iterator[str | _Hole]:
    """The text cut at its templates; one that is not closed reaches to the end."""
    at = 0
    while (start := text.find(_OPEN, at)) >= 0:
        if start > at:
            yield text[at:start]
        inside = _INSIDE.match(text, start + len(_OPEN))
        end = inside.end() if inside else start + len(_OPEN)
        if not text.startswith(_CLOSE, end):
            yield _Hole(text[start + len(_OPEN) :].strip(), text[start:], is_closed=False)
            return
        at = end + len(_CLOSE)
        yield _Hole(text[start + len(_OPEN) : end].strip(), text[start:at])
    if at < len(text):
        yield text[at:]


def _spelled(value: Json) -> str:
    return value if isinstance(value, str) else lenient_json.compact(value)


def _compiled(path: str) -> json_paths.Path | str:
    """The path, or why it is none in a few words."""
    if not path.startswith("$"):
        return "one begins with $, as in $.messages[-1].content"
    try:
        return json_paths.compiled(path)
    except ValueError as error:
        return printable(str(error), _SHOWN)


def _shown(path: str, close: str = "") -> str:
    return " ".join(it for it in (_OPEN, printable(path, _SHOWN), close) if it)
