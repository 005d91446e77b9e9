"""Variables in the texts of a definition: `{{ name }}`, and `{{ env.NAME }}` of the environment.

Texts are Jinja2 expressions in a sandbox.  Statements and comments are not supported, so `{#` is
plain text; `{% raw %}` keeps braces as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import Final, NamedTuple

from llm_proxy.errors import name_hint
from llm_proxy.scenario.documents.names import nearest_choice
from llm_pytest.extras import needs_extra
from llm_pytest.models import VariableValue

with needs_extra():
    import jinja2
    from jinja2 import nodes
    from jinja2.sandbox import SandboxedEnvironment

ENVIRONMENT_NAME: Final = "env"
_MAX_CYCLES: Final = 20
"""More cycles are not searched for."""
_SOURCE_OF_BRACES: Final = re.compile(r"\{[{%]")
_EXPRESSION_ERRORS: Final = (
    jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError,
    MemoryError, RecursionError,
)  # fmt: skip
"""What the evaluation of an expression can raise: Jinja2 passes on the errors of Python."""


class TextProblem(NamedTuple):
    """What is wrong with a text."""

    message: str
    name: str = ""
    """The name that is wrong, to find its position; empty if the whole text is wrong."""


class UnusableText(Exception):
    """A text that cannot be rendered, with all its problems."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


class _Environ:
    """The environment within an expression: only names, no methods."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def __getitem__(self, name: str) -> str:
        return self._environ[name]


def _plain_text(value: object) -> object:
    """A boolean as in YAML, any other value as it is."""
    return str(value).lower() if isinstance(value, bool) else value


_JINJA: Final = SandboxedEnvironment(
    undefined=jinja2.StrictUndefined,
    keep_trailing_newline=True,
    comment_start_string="\0{#",  # so that no text begins a comment
    comment_end_string="#}\0",
    finalize=_plain_text,
)
_JINJA.globals.clear()
del _JINJA.filters["random"]  # each run has the same prompt


def has_expression(text: str) -> bool:
    """Whether a text contains `{{` or `{%`."""
    return _SOURCE_OF_BRACES.search(text) is not None


def used_names(text: str) -> frozenset[str]:
    """The variables in a text, without `env`; none if the text is invalid."""
    tree = _parse(text)
    if isinstance(tree, TextProblem):
        return frozenset()
    return frozenset(name.name for name in tree.find_all(nodes.Name)) - {ENVIRONMENT_NAME}


def text_problems(text: str, known_names: Mapping[str, object]) -> Iterator[TextProblem]:
    """The errors in a text that can be found without its values: syntax and unknown names."""
    if not has_expression(text):
        return
    tree = _parse(text)
    if isinstance(tree, TextProblem):
        yield tree
        return
    for name in dict.fromkeys(name.name for name in tree.find_all(nodes.Name)):
        if name not in known_names and name != ENVIRONMENT_NAME:
            yield TextProblem(
                f"unknown variable '{name}'; {_variable_hint(name, known_names)}", name
            )
    for node in tree.find_all((nodes.Filter, nodes.Test)):
        kind, known = (
            ("filter", _JINJA.filters) if isinstance(node, nodes.Filter) else ("test", _JINJA.tests)
        )
        if node.name not in known:
            hint = name_hint(node.name, known, f"see the list of {kind}s of Jinja2")
            yield TextProblem(f"unknown {kind} '{node.name}'; {hint}", node.name)
    environment_uses = sum(name.name == ENVIRONMENT_NAME for name in tree.find_all(nodes.Name))
    if environment_uses > len(_environment_names(tree)):
        yield TextProblem("write {{ env.NAME }} for an environment variable", ENVIRONMENT_NAME)


def name_problem(name: str) -> str:
    """Why a name cannot be the name of a variable; empty if it can."""
    if name == ENVIRONMENT_NAME:
        return "the name 'env' is for environment variables; choose another name"
    tree = _parse(f"{{{{ {name} }}}}") if name.isidentifier() else None
    if isinstance(tree, nodes.Template) and next(tree.find_all(nodes.Name), None) is not None:
        return ""
    return "not a valid variable name; use letters, digits and _, and no word of Jinja2"


def order_of_variables(
    variables: Mapping[str, VariableValue],
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """The variables in the order of their evaluation, without those in cycles; and the cycles."""
    graph = {
        name: (used_names(value) & variables.keys() if isinstance(value, str) else frozenset())
        for name, value in variables.items()
    }
    cycles: list[tuple[str, ...]] = []
    while len(cycles) < _MAX_CYCLES:
        try:
            order = tuple(TopologicalSorter(graph).static_order())
        except CycleError as error:
            cycle: list[str] = error.args[1]
            members = set(cycle)
            cycles.append(tuple(name for name in variables if name in members))
            graph = {name: used - members for name, used in graph.items() if name not in members}
        else:
            return order, tuple(cycles)
    return (), tuple(cycles)


def render(text: str, values: Mapping[str, VariableValue], environ: Mapping[str, str]) -> str:
    """A text with the values filled in.  Raises `UnusableText`."""
    if not has_expression(text):
        return text
    try:
        template = _JINJA.from_string(text)
        return template.render({**values, ENVIRONMENT_NAME: _Environ(environ)})
    except _EXPRESSION_ERRORS as error:
        tree = _parse(text)
        names = _environment_names(tree) if isinstance(tree, nodes.Template) else []
        missing = [name for name in dict.fromkeys(names) if name not in environ]
        problems = [
            f"the environment variable {name} is not set; set it before the test, such as in a "
            "fixture"
            for name in missing
        ] or [f"cannot evaluate the expression: {_message_of(error)}"]
        raise UnusableText(tuple(problems)) from None


@lru_cache(maxsize=1000)
def _parse(text: str) -> nodes.Template | TextProblem:
    """The syntax tree of a text, or why there is none."""
    try:
        tree = _JINJA.parse(text)
    except jinja2.TemplateSyntaxError as error:
        return _syntax_problem(text, error)
    except (RecursionError, MemoryError):
        return TextProblem("the expression is nested too deep; simplify it")
    if any(not isinstance(node, nodes.Output) for node in tree.body):
        return TextProblem(
            "statements ({% … %}) are not supported; write {{ name }}, or "
            "{% raw %} … {% endraw %} for text with braces"
        )
    return tree


def _syntax_problem(text: str, error: jinja2.TemplateSyntaxError) -> TextProblem:
    line_count = text.rstrip("\n").count("\n") + 1
    place = f" in line {error.lineno} of the text" if line_count > 1 else ""
    return TextProblem(
        f"invalid expression{place}: {_message_of(error)}; write {{{{ name }}}} or "
        "{{ env.NAME }}, and {{ '{{' }} for two braces"
    )


def _message_of(error: BaseException) -> str:
    """The message of an error, in our form."""
    message = (getattr(error, "message", None) or str(error) or type(error).__name__).strip()
    return message[0].lower() + message[1:].rstrip(".")


def _environment_names(tree: nodes.Template) -> list[str]:
    """The environment variables of a text, one for each use."""
    names: list[str] = []
    for node in tree.find_all((nodes.Getattr, nodes.Getitem)):
        match node:
            case nodes.Getattr(node=nodes.Name(name="env"), attr=name):
                names.append(name)
            case nodes.Getitem(node=nodes.Name(name="env"), arg=nodes.Const(value=str(name))):
                names.append(name)
            case _:
                pass
    return names


def _variable_hint(name: str, known_names: Mapping[str, object]) -> str:
    if nearest := nearest_choice(name, known_names):
        return f"did you mean '{nearest}'?"
    known = ", ".join(known_names) or "none"
    return (
        f"known: {known}; add it to variables, or write {{{{ env.{name} }}}} for an environment "
        "variable"
    )
