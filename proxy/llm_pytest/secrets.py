"""Secrets: the model reads and writes their names, and only the tools have their values.

A secret of the environment that a definition uses is `{{ env.NAME }}` in the prompt.  A secret in
the result of a tool, such as the token of a login, is `{{ secret.1 }}`, numbered in their order.
In arguments, the tools insert the values.  So a secret that is found reaches neither the provider
nor a recording nor a report, and a replay uses that of its own run.

What is a secret is decided by the rules that redact cassettes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final
from urllib.parse import quote, unquote

from llm_proxy.redaction import (
    DEFAULT_REDACTION,
    environment_secret_spellings,
    has_secret_shape,
    is_credential_name,
    is_credential_parameter,
    operator_secrets,
)
from llm_proxy.redaction.documents import TextRedaction
from llm_proxy.turns import Json
from llm_pytest.models import TestSpec
from llm_pytest.plugin_base import ToolError
from llm_pytest.variables import ENVIRONMENT_PREFIX, expressions

_NAME: Final = re.compile(r"\{\{ *((?:env|secret)\.[A-Za-z0-9_]+) *\}\}")
_MIN_CHARS: Final = 8
"""A shorter value may be an ordinary word elsewhere in a result."""
_MIN_ENVIRONMENT_CHARS: Final = 12
_MAX_KNOWN: Final = 500
"""The most secrets that are searched for elsewhere; each costs a search in every text."""
_MAX_DEPTH: Final = 100
"""Deeper values stay as they are."""

_PARAMETER: Final = re.compile(
    r"(?:[?&#]|&amp;)([\w.-]{1,60})=([^&#;\s\"'<>{}()\\*]{8,})(?<![.,;:!?])"
)
"""A parameter of a URL in any text."""
_ENCODINGS: Final[Mapping[str, Callable[[str], str]]] = {
    "url": partial(quote, safe=""), "pattern": re.escape, "matches": re.escape,
}  # fmt: skip
"""How a value is inserted into an argument that has a syntax."""


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

        The values of others are hidden if they look like secrets, and inserted once a result has
        shown their names.
        """
        self._values = {f"env.{name}": environ[name] for name in names if name in environ}
        self._name_by_value = {value: name for name, value in self._values.items()}
        for name, value in environ.items():
            is_long = len(value) >= _MIN_ENVIRONMENT_CHARS
            if is_long and is_credential_name(name) and has_secret_shape(value.encode()):
                self._name_by_value.setdefault(value, f"env.{name}")
        self._found_count = 0
        known = operator_secrets(environment_secret_spellings(environ))
        self._redaction = TextRedaction(
            DEFAULT_REDACTION.finder(known), DEFAULT_REDACTION, is_request=True
        )

    def insert(self, arguments: dict[str, Json]) -> dict[str, Json]:
        """The arguments of a tool with the secrets in place of their names.

        They are encoded where an argument is a URL or a pattern.  Raises `ToolError` for a name
        without a value.
        """

        def insert_in(name: str, argument: Json) -> Json:
            encode = _ENCODINGS.get(name, str)

            def insert_in_text(text: str, _: str) -> str:
                return _NAME.sub(lambda found: encode(self._value_of(found[1])), text)

            return _map_texts(argument, insert_in_text)

        return {name: insert_in(name, argument) for name, argument in arguments.items()}

    def hide(self, value: Any) -> Any:
        """A JSON value with the names in place of the secrets, which are numbered as they come."""
        # A second time, for what comes before the field that shows that it is a secret.
        return self.hide_known(_map_texts(value, self._hide_in_text))

    def hide_known(self, value: Any) -> Any:
        """A JSON value with names in place of the secrets that have one."""

        def change(text: str, _: str) -> str:
            return self._hide_known_in_text(text)

        return _map_texts(value, change, change_name=self._hide_known_in_text)

    def _value_of(self, name: str) -> str:
        if name not in self._values:
            raise ToolError(f"there is no {{{{ {name} }}}} in this test")
        return self._values[name]

    def _hide_in_text(self, text: str, member: str) -> str:
        pieces: list[str] = []
        offset = 0
        for begin, end, secret in self._spans(text, member):
            if begin >= offset:
                pieces += (text[offset:begin], self._name_of(secret))
                offset = end
        return "".join([*pieces, text[offset:]])

    def _spans(self, text: str, member: str) -> list[tuple[int, int, str]]:
        """The begin, the end and the value of each secret in a text that a member contains."""
        spans = [
            (change.begin, change.end, _decoded_json(text[change.begin : change.end]))
            for change in self._redaction.find_changes(text, member)
            if not _is_sentence(text[change.begin : change.end])
        ]
        spans += [
            (*match.span(2), unquote(match[2]))
            for match in _PARAMETER.finditer(text)
            if is_credential_parameter(match[1]) and has_secret_shape(match[2].encode())
        ]
        return sorted(spans)

    def _name_of(self, secret: str) -> str:
        """A new name for a secret, also if it has one: in another run, these may be two."""
        known_name = self._name_by_value.get(secret, "")
        if known_name.startswith("env."):
            return self._shown(known_name, secret)
        self._found_count += 1
        name = f"secret.{self._found_count}"
        # Elsewhere, an ordinary word is no secret, even if it is the value of a secret field.
        is_distinctive = len(secret) >= _MIN_CHARS and has_secret_shape(secret.encode())
        if is_distinctive and len(self._name_by_value) < _MAX_KNOWN:
            self._name_by_value[secret] = name
        return self._shown(name, secret)

    def _shown(self, name: str, secret: str) -> str:
        self._values[name] = secret
        return f"{{{{ {name} }}}}"

    def _hide_known_in_text(self, text: str) -> str:
        for value, name in self._name_by_value.items():
            if value in text and len(value) >= _MIN_CHARS:
                text = text.replace(value, self._shown(name, value))
        return text


def _is_sentence(text: str) -> bool:
    """Whether a text is no secret although its field has the name of one: `errors.password`."""
    words = text.split(" ")
    return len(words) > 1 and not any(has_secret_shape(word.encode()) for word in words)


def _decoded_json(secret: str) -> str:
    """A secret without the escapes that it has in JSON within a text."""
    if "\\" in secret:
        with suppress(ValueError):
            return str(json.loads(f'"{secret}"'))
    return secret


def _map_texts(
    value: Json,
    change: Callable[[str, str], str],
    member: str = "",
    change_name: Callable[[str], str] = str,
    depth: int = _MAX_DEPTH,
) -> Json:
    """A value with its texts mapped; `change` gets a text, and the member that contains it."""
    match value:
        case str():
            return change(value, member)
        case list() if depth:
            return [_map_texts(item, change, member, change_name, depth - 1) for item in value]
        case dict() if depth:
            return {
                change_name(name): _map_texts(item, change, name, change_name, depth - 1)
                for name, item in value.items()
            }
        case _:
            return value
