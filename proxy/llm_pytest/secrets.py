"""Secrets of the environment that a definition uses: the model never reads them.

In the prompt, and in the arguments that the model writes, a secret is `{{ env.NAME }}`.  The tools
insert its value, and results contain the name again.  So neither the provider nor a recording has
the value, and a replay works with another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from llm_proxy.redaction.names import is_credential_name
from llm_proxy.turns import Json
from llm_pytest.models import TestSpec
from llm_pytest.variables import ENVIRONMENT_PREFIX, expressions, replace_expressions

_MIN_HIDDEN_CHARS: Final = 8
"""A shorter value may be an ordinary word of a result."""


_MAX_DEPTH: Final = 100
"""Deeper values stay as they are."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secrets of one test, by the names of their environment variables."""

    value_by_name: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_names(cls, names: Iterable[str], environ: Mapping[str, str]) -> Self:
        """Those of these names that are secrets, and are set."""
        return cls(
            {name: environ[name] for name in names if is_credential_name(name) and name in environ}
        )

    @classmethod
    def of_test(cls, spec: TestSpec, environ: Mapping[str, str]) -> Self:
        """Those that the texts of a resolved definition name."""
        texts = [spec.description, *spec.setup, *spec.teardown]
        for step in spec.steps:
            texts += (step.do, *step.expectations)
        names = (name for text in texts for name in expressions(text))
        return cls.of_names((name.removeprefix(ENVIRONMENT_PREFIX) for name in names), environ)

    def insert(self, value: Any) -> Any:
        """A value with the secrets in place of their names."""
        return _map_texts(value, self._insert_in_text)

    def hide(self, value: Any) -> Any:
        """A value with the names in place of the secrets."""
        return _map_texts(value, self._hide_in_text)

    def _insert_in_text(self, text: str) -> str:
        def value_of(expression: str, written: str) -> str:
            return self.value_by_name.get(expression.removeprefix(ENVIRONMENT_PREFIX), written)

        return replace_expressions(text, value_of)

    def _hide_in_text(self, text: str) -> str:
        for name, value in self.value_by_name.items():
            if len(value) >= _MIN_HIDDEN_CHARS:
                text = text.replace(value, f"{{{{ {ENVIRONMENT_PREFIX}{name} }}}}")
        return text


NO_SECRETS: Final = Secrets()


def _map_texts(value: Json, change: Callable[[str], str], depth: int = _MAX_DEPTH) -> Json:
    match value:
        case str():
            return change(value)
        case list() if depth:
            return [_map_texts(item, change, depth - 1) for item in value]
        case dict() if depth:
            return {
                change(name): _map_texts(item, change, depth - 1) for name, item in value.items()
            }
        case _:
            return value
