"""The package follows the architecture rules, and each rule detects a deliberate violation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

import house_rules
import llm_proxy
from case_tables import each_row
from house_rules import Source, parse_source

Rule = Callable[[Sequence[Source]], Iterator[str]]

PACKAGE: Final = Path(llm_proxy.__file__).parent
RULES: Final[tuple[Rule, ...]] = (
    house_rules.imports_upward,
    house_rules.imports_of_runtime,
    house_rules.import_cycles,
    house_rules.imports_between_dialects,
    house_rules.impure_code,
    house_rules.missing_docstrings,
    house_rules.catch_all_handlers,
    house_rules.atomic_patterns,
    house_rules.provider_names,
)


@pytest.fixture(scope="module")
def package() -> tuple[Source, ...]:
    return (
        *house_rules.package_sources(PACKAGE),
        *house_rules.package_sources(PACKAGE.parent / house_rules.RUNTIME_PACKAGE),
        *house_rules.package_sources(PACKAGE.parent / house_rules.TESTS_PACKAGE),
    )


@pytest.mark.shows("001-05")
@each_row("rule", RULES, ids=[rule.__name__ for rule in RULES])
def test_the_package_keeps_the_rule(package: tuple[Source, ...], rule: Rule) -> None:
    breaches = list(rule(package))

    assert not breaches, "\n".join([str(rule.__doc__), *breaches])


def test_all_modules_of_the_package_are_parsed(package: tuple[Source, ...]) -> None:
    modules = {source.module for source in package}

    assert {
        "llm_proxy",
        "llm_proxy.exchange",
        "llm_proxy.framing.sse",
        "llm_proxy.cli",
        "llm_chat",
        "llm_chat.client",
        "llm_pytest.toolset",
    } <= modules


DIALECT_SOURCE: Final = "class {}:\n    def matches(self, request): ..."

VIOLATIONS: Final[dict[str, tuple[Rule, dict[str, str], str]]] = {
    "model import logic": (
        house_rules.imports_upward,
        {"exchange": "\nfrom llm_proxy.matching import key", "matching": ""},
        "exchange:2: model import llm_proxy.matching",
    ),
    "logic imports a mode, inside a function": (
        house_rules.imports_upward,
        {"pacing": "def f():\n    from llm_proxy.modes import replay", "modes.replay": ""},
        "pacing:2: logic import llm_proxy.modes.replay",
    ),
    "a mode imports the shell, for its types": (
        house_rules.imports_upward,
        {
            "modes.x": "if TYPE_CHECKING:\n    import llm_proxy.shell.upstream.pump",
            "shell.upstream.pump": "",
        },
        "modes.x:2: modes import llm_proxy.shell.upstream.pump",
    ),
    "the shell imports the command line": (
        house_rules.imports_upward,
        {"shell.run": "from llm_proxy import cli", "cli": "", "": ""},
        "shell.run:1: shell import llm_proxy.cli",
    ),
    "a relative import": (
        house_rules.imports_upward,
        {"framing.sse": "from .ndjson import Codec"},
        "framing.sse:1: relative import .ndjson.Codec",
    ),
    "two modules import each other": (
        house_rules.import_cycles,
        {"routing": "from llm_proxy import keys", "keys": "import llm_proxy.routing", "": ""},
        ":1: a circle of imports: llm_proxy.",
    ),
    "a dialect imports another": (
        house_rules.imports_between_dialects,
        {
            "dialects.groq": "from llm_proxy.dialects.openai import OpenAI",
            "dialects.openai": DIALECT_SOURCE.format("OpenAI"),
        },
        "dialects.groq:1: a file of the dialects imports llm_proxy.dialects.openai",
    ),
    "a dialect imports the list of dialects": (
        house_rules.imports_between_dialects,
        {"dialects.groq": "from llm_proxy.dialects import find", "dialects": ""},
        "dialects.groq:1: a file of the dialects imports llm_proxy.dialects",
    ),
    "a mode imports a socket": (
        house_rules.impure_code,
        {"modes.replay": "x = 1\nimport socket"},
        "modes.replay:2: import of socket",
    ),
    "logic imports a part of the world": (
        house_rules.impure_code,
        {"matching": "from urllib.request import urlopen"},
        "matching:1: import of urllib.request.urlopen",
    ),
    "logic imports a file under another name": (
        house_rules.impure_code,
        {"cassette.reader": "from pathlib import Path as P"},
        "cassette.reader:1: import of pathlib.Path",
    ),
    "logic opens a file": (
        house_rules.impure_code,
        {"cassette.reader": "def load(name):\n    return open(name).read()"},
        "cassette.reader:2: call of open()",
    ),
    "logic asks a clock": (
        house_rules.impure_code,
        {"pacing": "import datetime\nat = datetime.datetime.now(datetime.UTC)"},
        "pacing:2: call of datetime.datetime.now()",
    ),
    "a module without a docstring": (
        house_rules.missing_docstrings,
        {"takes": "# what takes are\nimport re"},
        "takes:1: no docstring",
    ),
    "the plugin imports the conversation runtime": (
        house_rules.imports_of_runtime,
        {"pytest_plugin": "import llm_chat.client", "llm_chat.client": ""},
        "pytest_plugin:1: import of llm_chat.client",
    ),
    "the conversation runtime imports LLM tests": (
        house_rules.imports_of_runtime,
        {"llm_chat.client": "import llm_pytest.models", "llm_pytest.models": ""},
        "llm_chat.client:1: import of llm_pytest.models",
    ),
    "LLM tests import an entry point": (
        house_rules.imports_upward,
        {"llm_pytest.runner": "import llm_proxy.cli.output", "cli.output": ""},
        "llm_pytest.runner:1: LLM tests import llm_proxy.cli.output",
    ),
    "everything caught": (
        house_rules.catch_all_handlers,
        {"shell.pump": "class A:\n  def f(self):\n    try: g()\n    except Exception: pass"},
        "shell.pump:4: A.f catches everything",
    ),
    "everything caught among others": (
        house_rules.catch_all_handlers,
        {"takes": "try: g()\nexcept (KeyError, BaseException) as e: raise Other from e"},
        "takes:2: the module catches everything",
    ),
    "everything caught, unnamed": (
        house_rules.catch_all_handlers,
        {"takes": "try: g()\nexcept: pass"},
        "takes:2: the module catches everything",
    ),
    "everything suppressed": (
        house_rules.catch_all_handlers,
        {"shell.server": "def f():\n  with contextlib.suppress(OSError, Exception): g()"},
        "shell.server:2: f catches everything",
    ),
    "a possessive group": (
        house_rules.atomic_patterns,
        {"takes": "import re\nre.compile(rb'(?:a|b)*+c')"},
        "takes:2: b)*+ in a pattern",
    ),
    "an atomic group": (
        house_rules.atomic_patterns,
        {"takes": "X = '(?>a|b)'"},
        "takes:1: (?>a in a pattern",
    ),
    "a provider's name outside the dialects": (
        house_rules.provider_names,
        {"modes.x": 'if provider == "bedrock":\n    sign()'},
        "modes.x:1: bedrock is the name of a provider",
    ),
}


def parse_sources(texts: dict[str, str]) -> list[Source]:
    """Parse made-up modules: keyed by the name, or by its part after `llm_proxy.`."""
    return [
        parse_source(
            name if name.startswith("llm_") else f"llm_proxy.{name}".rstrip("."), text, name
        )
        for name, text in texts.items()
    ]


@each_row(("rule", "texts", "breach"), VIOLATIONS.values(), ids=VIOLATIONS)
def test_a_breach_is_named_with_its_line(rule: Rule, texts: dict[str, str], breach: str) -> None:
    breaches = list(rule(parse_sources(texts)))

    assert len(breaches) == 1
    assert breach in breaches[0]


def test_every_rule_is_shown_to_fail() -> None:
    assert {rule for rule, _, _ in VIOLATIONS.values()} == set(RULES)


ALLOWED: Final[dict[str, tuple[Rule, dict[str, str]]]] = {
    "downward": (
        house_rules.imports_upward,
        {"cli": "from llm_proxy import shell, version", "shell": "", "version": "", "": ""},
    ),
    "the command line imports the conversation runtime": (
        house_rules.imports_of_runtime,
        {"cli.chat": "import llm_chat.client", "llm_chat.client": ""},
    ),
    "LLM tests import the conversation runtime, and the command line LLM tests": (
        house_rules.imports_of_runtime,
        {
            "llm_pytest.toolset": "import llm_chat.tools",
            "llm_chat.tools": "",
            "cli.llm_test": "import llm_pytest.toolset",
        },
    ),
    "a circle of types alone": (
        house_rules.import_cycles,
        {"a": "if TYPE_CHECKING:\n    import llm_proxy.b", "b": "import llm_proxy.a"},
    ),
    "a family's common part": (
        house_rules.imports_between_dialects,
        {
            "dialects.groq": "from llm_proxy.dialects.lenient_json import text",
            "dialects.reading": "",
        },
    ),
    "the list of dialects": (
        house_rules.imports_between_dialects,
        {
            "dialects": "from llm_proxy.dialects.groq import G",
            "dialects.groq": DIALECT_SOURCE.format("G"),
        },
    ),
    "the shell in the world": (
        house_rules.impure_code,
        {
            "shell.pump": "import asyncio\nopen(0)",
            "cli.ls": "import os",
            "pytest_plugin": "import os",
        },
    ),
    "values of the world's modules": (
        house_rules.impure_code,
        {"dialects.plain": "from http import HTTPStatus\nfrom urllib.parse import quote"},
    ),
    "a method that is named like a call": (
        house_rules.impure_code,
        {"takes": "import re\nre.compile('x')\nself.library.open(name)\nclock.now()"},
    ),
    "caught, and raised again": (
        house_rules.catch_all_handlers,
        {"takes": "try: g()\nexcept BaseException:\n    tidy()\n    raise"},
    ),
    "a possessive character": (house_rules.atomic_patterns, {"takes": "X = '[ab]*+c(d)+'"}),
    "providers in a dialect, and in texts": (
        house_rules.provider_names,
        {
            "dialects.x": 'X = "openai"',
            "cli.x": '"""Names OpenAI."""\nHELP = "such as openai=URL"',
            "providers": 'X = "openai"',
        },
    ),
    "the outermost frame": (
        house_rules.catch_all_handlers,
        {
            "shell.server.server": "class ProxyServer:\n  def _handle_request(self):\n"
            "    try: g()\n"
            "    except Exception: log()"
        },
    ),
}


@each_row(("rule", "texts"), ALLOWED.values(), ids=ALLOWED)
def test_what_is_allowed_is_no_breach(rule: Rule, texts: dict[str, str]) -> None:
    assert list(rule(parse_sources(texts))) == []
