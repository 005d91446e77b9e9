"""Variables in the texts of a definition: `{{ name }}`, and `{{ env.NAME }}` of the environment.

`{{ '{{' }}` inserts two braces, as in scenarios.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from llm_proxy.redaction.names import is_credential_name
from llm_pytest.errors import LLMTestError
from llm_pytest.models import VariableValue

ENVIRONMENT_NAME: Final = "env"
ENVIRONMENT_PREFIX: Final = f"{ENVIRONMENT_NAME}."
_BRACES: Final = "'{{'"
_EXPRESSION: Final = re.compile(
    rf"\{{\{{[ \t]*((?:env\.)?[A-Za-z_][A-Za-z0-9_]*|{re.escape(_BRACES)})[ \t]*\}}\}}|\{{\{{"
)
"""Two braces, and what follows if that is an expression."""


class VariableError(LLMTestError):
    """The value of a variable that a text needs is missing, or too long."""


def expressions(text: str) -> Iterator[str]:
    """What stands between braces in a text: names of variables; empty for anything else."""
    for match in _EXPRESSION.finditer(text):
        if match[1] != _BRACES:
            yield match[1] or ""


def replace_expressions(text: str, replace: Callable[[str, str], str]) -> str:
    """A text with the result of `replace` for each expression: its content, and the whole."""
    return _EXPRESSION.sub(lambda match: replace(match[1] or "", match[0]), text)


def render(
    text: str, values: Mapping[str, VariableValue], environ: Mapping[str, str], max_growth: int
) -> str:
    """A text with the values filled in; booleans as in YAML, and secrets as `{{ env.NAME }}`.

    All names in it are known.  Raises `VariableError`, also if the text becomes more than
    `max_growth` characters longer: values that use others grow exponentially.
    """
    growth = 0

    def insert(expression: str, whole: str) -> str:
        nonlocal growth
        value = value_of(expression)
        growth += len(value) - len(whole)
        if growth > max_growth:
            raise VariableError("the variables add too many characters; shorten them")
        return value

    def value_of(expression: str) -> str:
        if expression == _BRACES:
            return "{{"
        if not expression.startswith(ENVIRONMENT_PREFIX):
            value = values[expression]
            return str(value).lower() if isinstance(value, bool) else str(value)
        name = expression.removeprefix(ENVIRONMENT_PREFIX)
        if name not in environ:
            raise VariableError(
                f"the environment variable {name} is not set; set it before the test, such as in "
                "a fixture"
            )
        return f"{{{{ {expression} }}}}" if is_credential_name(name) else environ[name]

    return replace_expressions(text, insert)


def is_valid_name(name: str) -> bool:
    """Whether a variable can have this name."""
    return name != ENVIRONMENT_NAME and [*expressions(f"{{{{{name}}}}}")] == [name]
