"""Validates templates."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from llm_proxy.scenario.documents.document import Scenario
from llm_proxy.scenario.documents.findings import StructFinding
from llm_proxy.turns import Json

_Where = tuple[str | int, ...]


def check_templates(scenario: Scenario) -> Iterator[StructFinding]:
    """Every text of its answers, where they are templates."""
    if not scenario.templates:
        return
    from llm_proxy.scenario.generation import templates  # noqa: PLC0415 # takes a tenth of a second, and few documents need it

    for index, step in enumerate(scenario.turns):
        answer: Json = msgspec.to_builtins(step.response)
        for where, text in _texts(answer, ("turns", index, "response")):
            if why := templates.template_mistake(text):
                yield StructFinding(where, why)


def _texts(value: Json, where: _Where) -> Iterator[tuple[_Where, str]]:
    match value:
        case str():
            yield where, value
        case list():
            for index, item in enumerate(value):
                yield from _texts(item, (*where, index))
        case dict():
            for name, item in value.items():
                yield from _texts(item, (*where, name))
        case _:
            pass
