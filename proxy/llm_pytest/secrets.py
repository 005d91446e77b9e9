"""Secrets: the model reads and writes their names, and only the tools have their values.

A secret of the environment that a definition uses is `{{ env.NAME }}` in the prompt.  A secret in
the result of a tool, such as the token of a login, is `{{ secret.1 }}`, numbered in their order.
In arguments, the tools insert the values.  So neither the provider nor a recording nor a report has
them, and a replay uses those of its own run.

What is a secret is decided by the rules that redact cassettes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from llm_proxy.redaction import (
    DEFAULT_REDACTION,
    environment_secret_spellings,
    is_credential_name,
    operator_secrets,
)
from llm_proxy.redaction.documents import TextRedaction
from llm_proxy.turns import Json
from llm_pytest.models import TestSpec
from llm_pytest.variables import ENVIRONMENT_PREFIX, expressions

_NAME: Final = re.compile(r"\{\{ *((?:env|secret)\.[A-Za-z0-9_]+) *\}\}")
_MIN_CHARS: Final = 8
"""A shorter value may be an ordinary word elsewhere in a result."""
_MAX_DEPTH: Final = 100
"""Deeper values stay as they are."""


def secret_names(spec: TestSpec) -> tuple[str, ...]:
    """The environment variables with secrets that the texts of a resolved definition name."""
    texts = [spec.description, *spec.setup, *spec.teardown]
    for step in spec.steps:
        texts += (step.do, *step.expectations)
    names = dict.fromkeys(
        name.removeprefix(ENVIRONMENT_PREFIX) for text in texts for name in expressions(text)
    )
    return tuple(filter(is_credential_name, names))


class Secrets:
    """The secrets of one test."""

    def __init__(self, names: Iterable[str] = (), environ: Mapping[str, str] = {}) -> None:
        """`names` are those of environment variables whose values the tools may insert.

        The values of all others that hold secrets are only hidden.
        """
        self._values = {f"env.{name}": environ[name] for name in names if name in environ}
        self._name_by_value = {value: name for name, value in self._values.items()}
        for name, value in environ.items():
            if is_credential_name(name):
                self._name_by_value.setdefault(value, f"env.{name}")
        self._found_count = 0
        known = operator_secrets(environment_secret_spellings(environ))
        self._redaction = TextRedaction(
            DEFAULT_REDACTION.finder(known), DEFAULT_REDACTION, is_request=True
        )

    def insert(self, value: Any) -> Any:
        """A JSON value with the secrets in place of their names."""

        def insert_in_text(text: str, _: str) -> str:
            return _NAME.sub(lambda found: self._values.get(found[1], found[0]), text)

        return _map_texts(value, insert_in_text)

    def hide(self, value: Any) -> Any:
        """A JSON value with the names in place of the secrets."""
        return _map_texts(value, self._hide_in_text)

    def hide_known(self, value: Any) -> Any:
        """A JSON value with names in place of the secrets that have one."""
        return _map_texts(value, lambda text, _: self._hide_known_in_text(text))

    def _hide_in_text(self, text: str, member: str) -> str:
        pieces: list[str] = []
        offset = 0
        for change in self._redaction.find_changes(text, member):
            pieces.append(self._hide_known_in_text(text[offset : change.begin]))
            pieces.append(self._shown_name(text[change.begin : change.end]))
            offset = change.end
        pieces.append(self._hide_known_in_text(text[offset:]))
        return "".join(pieces)

    def _shown_name(self, secret: str) -> str:
        if secret not in self._name_by_value:
            self._found_count += 1
            name = f"secret.{self._found_count}"
            self._name_by_value[secret] = name
            self._values[name] = secret
        return f"{{{{ {self._name_by_value[secret]} }}}}"

    def _hide_known_in_text(self, text: str) -> str:
        for value, name in self._name_by_value.items():
            if len(value) >= _MIN_CHARS and value in text:
                text = text.replace(value, f"{{{{ {name} }}}}")
        return text


def _map_texts(
    value: Json, change: Callable[[str, str], str], member: str = "", depth: int = _MAX_DEPTH
) -> Json:
    """A value with its texts mapped; `change` gets a text, and the member that contains it."""
    match value:
        case str():
            return change(value, member)
        case list() if depth:
            return [_map_texts(item, change, member, depth - 1) for item in value]
        case dict() if depth:
            return {name: _map_texts(item, change, name, depth - 1) for name, item in value.items()}
        case _:
            return value
