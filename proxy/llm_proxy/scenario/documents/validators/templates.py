"""Validates templates."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from llm_proxy.scenario.documents.document import Scenario
from llm_proxy.scenario.documents.findings import StructFinding
from llm_proxy.turns import Json

_Path = tuple[str | int, ...]


def check_templates(scenario: Scenario) -> Iterator[StructFinding]:
    """Check the templates in all texts of the responses, if templates are enabled."""
    if not scenario.templates:
        return
    from llm_proxy.scenario.generation import templates  # noqa: PLC0415 # takes a tenth of a second, and few documents need it

    for index, step in enumerate(scenario.turns):
        response: Json = msgspec.to_builtins(step.response)
        for path, text in _iterate_texts(response, ("turns", index, "response")):
            if error := templates.template_error(text):
                yield StructFinding(path, error)


def _iterate_texts(value: Json, path: _Path) -> Iterator[tuple[_Path, str]]:
    match value:
        case str():
            yield path, value
        case list():
            for index, item in enumerate(value):
                yield from _iterate_texts(item, (*path, index))
        case dict():
            for name, item in value.items():
                yield from _iterate_texts(item, (*path, name))
        case _:
            pass
