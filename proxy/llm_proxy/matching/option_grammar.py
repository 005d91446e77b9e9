"""Parses `--match` and matching rules: `uuids`, `ignore=$.metadata.trace`, `claude-code`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from llm_proxy.cassette.model import MAX_RULES, MAX_TEXT_CHARS, is_valid_meta_text
from llm_proxy.errors import UsageError, name_hint, printable_excerpt
from llm_proxy.matching.keys import NormaliserRule, RuleSet
from llm_proxy.matching.normalisers import NORMALISERS
from llm_proxy.matching.presets import PRESETS
from llm_proxy.redaction import split_rule_texts

_RULE_PATTERN: Final = re.compile(r"\s*([a-z][a-z0-9-]*)\s*(?:@([0-9]+)\s*)?(?:=(.*))?", re.DOTALL)
_SIMILARITY: Final = re.compile(r"0?\.[5-9][0-9]{0,3}|1(?:\.0{1,4})?")
_MAX_SHOWN_CHARS: Final = 80
"""The most characters of a rule that an error message quotes."""


@dataclass(frozen=True, slots=True)
class MatchSettings:
    """How similar a cassette's request must be for the cassette to answer."""

    is_exact: bool = False
    """Whether all rules are disabled, whatever is configured."""
    minimum_similarity: float | None = None
    """From 0 to 1: the similarity from which the nearest cassette answers if no key is equal;
    None if none does."""


def parse_match_settings(text: str) -> MatchSettings:
    """Parse `exact`, `normalised` or `nearest:0.9`.  Raises `UsageError` for anything else."""
    mode, colon, similarity = text.strip().partition(":")
    match mode:
        case "exact" if not colon:
            return MatchSettings(is_exact=True)
        case "normalised" if not colon:
            return MatchSettings()
        case "nearest" if _SIMILARITY.fullmatch(similarity):
            return MatchSettings(minimum_similarity=float(similarity))
        case _:
            raise UsageError(
                f"'{printable_excerpt(text, _MAX_SHOWN_CHARS)}' is not a valid matching mode: use "
                "exact, normalised, or nearest:N with N from 0.5 to 1, such as nearest:0.9"
            )


def parse_rules(texts: Iterable[str]) -> RuleSet:
    """Parse rules, in order.

    Raises `UsageError` as `parse_rule` does, and for more rules than a cassette can list.
    """
    match_texts, redaction = split_rule_texts(texts)
    rules = tuple(map(parse_rule, match_texts))
    if (count := len(rules) + len(redaction.texts)) > MAX_RULES:
        raise UsageError(f"too many rules: {count}; the maximum is {MAX_RULES}")
    return RuleSet(rules, redaction=redaction)


def parse_rule(text: str) -> NormaliserRule:
    """Parse a rule: `NAME` or `NAME=ARGUMENT`, with an optional `@VERSION` after the name.

    Raises `UsageError` with the problem.
    """
    match = _RULE_PATTERN.fullmatch(text)
    shown = printable_excerpt(text, _MAX_SHOWN_CHARS)
    if match is None:
        raise UsageError(
            f"'{shown}' is not a valid rule: use NAME or NAME=ARGUMENT, such as uuids or "
            "ignore=$.metadata.trace"
        )
    name, version, argument = match.groups()
    rule = _build_rule(name, argument)
    if not is_valid_meta_text(str(rule)):
        raise UsageError(
            f"'{shown}' is not a valid rule: use at most {MAX_TEXT_CHARS} characters, and no line "
            "breaks, tabs or other control characters"
        )
    if version is not None and int(version) != rule.version:
        shown_version = printable_excerpt(version, 20)
        raise UsageError(
            f"rule {name} has version {rule.version}, not {shown_version}; remove @{shown_version}"
        )
    return rule


def _build_rule(name: str, argument: str | None) -> NormaliserRule:
    """The normaliser or preset with that name.  Raises `UsageError` if there is none."""
    if (preset := PRESETS.get(name)) is not None:
        if argument is not None:
            raise UsageError(f"{name} takes no argument; remove ={printable_excerpt(argument, 20)}")
        return preset
    definition = NORMALISERS.get(name)
    if definition is None:
        hint = name_hint(name, (*NORMALISERS, *PRESETS))
        raise UsageError(f"unknown rule '{printable_excerpt(name, _MAX_SHOWN_CHARS)}'; {hint}")
    if definition.argument_description and not (argument or "").strip():
        raise UsageError(
            f"{name} needs {definition.argument_description}, such as "
            f"{name}={definition.example_argument}"
        )
    if not definition.argument_description and argument is not None:
        raise UsageError(f"{name} takes no argument; remove ={printable_excerpt(argument, 20)}")
    return definition.make_rule((argument or "").strip())
