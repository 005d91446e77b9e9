"""docs/reference/matching.md is correct: its pairs of requests have the keys that it states."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from case_tables import each_row
from llm_proxy.exchange import Request
from llm_proxy.matching import RuleSet
from llm_proxy.matching.normalisers import NORMALISERS
from llm_proxy.matching.option_grammar import parse_rule, parse_rules
from llm_proxy.matching.presets import PRESETS
from llm_proxy.routing import RoutingSettings, route_request

DOCS: Final = Path(__file__).parents[1] / "docs"
PAGE: Final = (DOCS / "reference" / "matching.md").read_text("utf-8")
_BLOCK: Final = re.compile(
    r"^```jsonl (?P<expected>same|differ)(?P<rules>[^\n]*)\n(?P<lines>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_REQUEST: Final = re.compile(
    r"(?:(?P<method>[A-Z]+) (?P<path>[^ ?]+)\??(?P<query>\S*) ?(?P<headers>[^{]*))?(?P<body>\{.*)"
)


CLIENTS: Final = {
    "claude-code": "Claude Code",
    "codex": "Codex CLI",
    "langchain": "LangChain",
    "pydantic-ai": "Pydantic AI",
    "ai-sdk": "Vercel's AI SDK",
    "llm-pytest": "tests that a model runs",
}
"""The clients of the presets, as the page names them."""


@dataclass(frozen=True)
class Example:
    """Requests of the page, and whether it states that their keys are the same or differ."""

    expected: str
    rules: tuple[str, ...]
    requests: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((self.expected, *self.rules)) + f": {self.requests[0]}"


EXAMPLES: Final = [
    Example(item["expected"], tuple(item["rules"].split()), tuple(item["lines"].splitlines()))
    for item in _BLOCK.finditer(PAGE)
]


def key_of(line: str, rules: RuleSet) -> str:
    """The key of a request in the notation of the page."""
    match = _REQUEST.fullmatch(line)
    assert match is not None, line
    pairs = [item.partition(":") for item in (match["headers"] or "").split(";") if item.strip()]
    headers = tuple((name.strip(), value.strip()) for name, _, value in pairs)
    request = Request(
        method=match["method"] or "POST",
        path=match["path"] or "/v1/chat/completions",
        query=match["query"] or "",
        headers=(("content-type", "application/json"), *headers),
        body=match["body"].encode(),
    )
    return route_request(request, 0.0, lambda: 0.0, settings=RoutingSettings(match_rules=rules)).key


@each_row("example", EXAMPLES, ids=map(str, EXAMPLES))
def test_the_keys_of_the_examples_are_as_the_page_says(example: Example) -> None:
    keys = [key_of(line, parse_rules(example.rules)) for line in example.requests]

    assert len(keys) > 1
    assert len(set(keys)) == (1 if example.expected == "same" else len(keys))


@each_row("example", [item for item in EXAMPLES if item.expected == "same" and item.rules])
def test_what_a_rule_makes_the_same_differs_without_any(example: Example) -> None:
    keys = [key_of(line, RuleSet()) for line in example.requests]

    assert len(set(keys)) == len(keys)


@each_row("expected", ["same", "differ"])
@each_row("name", [*NORMALISERS, *PRESETS])
def test_every_rule_has_its_pairs(name: str, expected: str) -> None:
    shown = {
        parse_rule(rule).name
        for example in EXAMPLES
        if example.expected == expected
        for rule in example.rules
    }

    assert name in shown


@each_row("name", NORMALISERS)
def test_every_rule_has_its_section_and_its_row(name: str) -> None:
    assert f"\n### {name}\n" in PAGE
    assert re.search(rf"\n\| \[`{name}(=[A-Z]+)?`\]\(#{name}\) \| ", PAGE)


def test_every_preset_has_its_row() -> None:
    rows = [
        f"| `{preset.name}` | {CLIENTS[preset.name]} | "
        f"{', '.join(f'`{step.name}`' for step in preset.preset_rules)} |"
        for preset in PRESETS.values()
    ]
    section = PAGE.split("## Presets")[1].split("\n## ")[0]

    assert [line for line in section.splitlines() if line.startswith("| `")] == rows


def test_the_rules_of_the_settings_file_that_is_shown_are_rules() -> None:
    [rule_list] = re.findall(r"^normalise = \[(.*)\]$", PAGE, re.MULTILINE)
    for rule in rule_list.split(", "):
        parse_rule(rule.strip("\"'"))


def test_the_rules_of_the_commands_that_are_shown_are_rules() -> None:
    commands = [shlex.split(line) for line in PAGE.splitlines() if line.startswith("llm-proxy ")]
    options = [
        words[place + 1]
        for words in commands
        for place, word in enumerate(words)
        if word == "--normalise"
    ]
    assert options
    assert [parse_rule(rule).option_text for rule in options] == options
