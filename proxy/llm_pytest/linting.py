"""Checks of a definition beyond what it needs to load: the rules of `llm-proxy llm-test lint`."""

from __future__ import annotations

from collections.abc import Iterator

from llm_proxy.scenario.documents.mistakes import (
    ROOT_PATH,
    DocumentMistake,
    child_path,
)
from llm_proxy.scenario.documents.names import choice_message
from llm_proxy.scenario.documents.parsing import Node
from llm_pytest.definitions import check_definition, template_texts
from llm_pytest.models import TestSpec
from llm_pytest.providers import PROVIDER_NAMES
from llm_pytest.variables import expressions


def lint_definition(
    file: str, content: bytes
) -> tuple[TestSpec | None, tuple[DocumentMistake, ...]]:
    """The definition, if it can be loaded, and its mistakes and warnings by position."""
    checked = check_definition(file, content)
    problems = list(checked.mistakes)
    if checked.node is not None:
        problems += _Linter(file, checked.node).problems()
    problems.sort(key=lambda problem: (problem.line, problem.column))
    return checked.spec, tuple(problems)


class _Linter:
    """Finds problems in the values of a definition, which may have mistakes too."""

    def __init__(self, file: str, root: Node) -> None:
        self._file = file
        self._root = root
        self._members: dict[str, Node] = root.value

    def problems(self) -> Iterator[DocumentMistake]:
        """All of them, in no order."""
        yield from self._provider_problems()
        yield from self._unused_variables()
        yield from self._steps_without_expectation()
        if self._has_items("setup") and not self._has_items("teardown"):
            message = "setup without teardown; add a teardown if the setup leaves anything behind"
            yield self._warning(self._members["setup"], "$.setup", message)

    def _has_items(self, field: str) -> bool:
        return field in self._members and bool(self._members[field].value)

    def _provider_problems(self) -> Iterator[DocumentMistake]:
        provider, model = self._members.get("provider"), self._members.get("model")
        name = "" if provider is None else provider.value
        if provider is not None and name and name not in PROVIDER_NAMES:
            message = choice_message(name, PROVIDER_NAMES).replace("value", "provider", 1)
            yield DocumentMistake(self._file, *provider.mark, "$.provider", message)
        if model is not None and model.value and not name:
            message = "a model without a provider; add the provider of this model"
            yield self._warning(model, "$.model", message)

    def _unused_variables(self) -> Iterator[DocumentMistake]:
        variables = self._members.get("variables")
        if variables is None:
            return
        texts = [text.value for text, _ in template_texts(self._root)]
        texts += [str(value.value) for value in variables.value.values()]
        used = {name for text in texts for name in expressions(text)}
        for name, value in variables.value.items():
            if name not in used:
                path = child_path("$.variables", name)
                yield self._warning(value, path, f"the variable '{name}' is not used; remove it")

    def _steps_without_expectation(self) -> Iterator[DocumentMistake]:
        steps = self._members.get("steps")
        for index, step in enumerate(steps.value if steps is not None else ()):
            if isinstance(step.value, dict):
                expect = step.value.get("expect")
                if expect is None or not expect.value:
                    path = child_path(child_path(ROOT_PATH, "steps"), index)
                    message = "the step has no expectation; add expect, or the step proves nothing"
                    yield self._warning(step, path, message)

    def _warning(self, node: Node, path: str, message: str) -> DocumentMistake:
        return DocumentMistake(self._file, *node.place, path, message, fails_lint=False)
