"""Variables in the texts of a definition: `{{ name }}`, and `{{ env.NAME }}` of the environment.

`{{ '{{' }}` inserts two braces, as in scenarios.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from llm_pytest.errors import LLMTestError
from llm_pytest.models import VariableValue

ENVIRONMENT_NAME: Final = "env"
_ENVIRONMENT_PREFIX: Final = f"{ENVIRONMENT_NAME}."
_BRACES: Final = "'{{'"
_EXPRESSION: Final = re.compile(
    rf"\{{\{{[ \t]*((?:env\.)?[A-Za-z_][A-Za-z0-9_]*|{re.escape(_BRACES)})[ \t]*\}}\}}|\{{\{{"
)
"""Two braces, and what follows if that is an expression."""


class MissingVariable(LLMTestError):
    """An environment variable that a text needs is not set."""


def expressions(text: str) -> Iterator[str]:
    """What stands between braces in a text: names of variables; empty for anything else."""
    for match in _EXPRESSION.finditer(text):
        if match[1] != _BRACES:
            yield match[1] or ""


def render(text: str, values: Mapping[str, VariableValue], environ: Mapping[str, str]) -> str:
    """A text with the values filled in; booleans as in YAML.

    All names in it are known.  Raises `MissingVariable`.
    """

    def value_of(match: re.Match[str]) -> str:
        name = match[1]
        if name == _BRACES:
            return "{{"
        if not name.startswith(_ENVIRONMENT_PREFIX):
            value = values[name]
            return str(value).lower() if isinstance(value, bool) else str(value)
        name = name.removeprefix(_ENVIRONMENT_PREFIX)
        if name not in environ:
            raise MissingVariable(
                f"the environment variable {name} is not set; set it before the test, such as in "
                "a fixture"
            )
        return environ[name]

    return _EXPRESSION.sub(value_of, text)


def is_valid_name(name: str) -> bool:
    """Whether a variable can have this name."""
    return name != ENVIRONMENT_NAME and [*expressions(f"{{{{{name}}}}}")] == [name]
