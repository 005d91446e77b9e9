"""Templates of a scenario: whether they can be filled in."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from llm_proxy.scenario.documents.document import Scenario
from llm_proxy.scenario.documents.findings import Finding
from llm_proxy.turns import Json

_Where = tuple[str | int, ...]


def of_answers(it: Scenario) -> Iterator[Finding]:
    """Every text of its answers, where they are templates."""
    if not it.templates:
        return
    from llm_proxy.scenario.generation import templates  # noqa: PLC0415 # takes a tenth of a second, and few documents need it

    for index, step in enumerate(it.turns):
        answer: Json = msgspec.to_builtins(step.response)
        for where, text in _texts(answer, ("turns", index, "response")):
            if why := templates.mistakes(text):
                yield Finding(where, why)


def _texts(value: Json, where: _Where) -> Iterator[tuple[_Where, str]]:
    """Every text in a value, with its place."""
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
