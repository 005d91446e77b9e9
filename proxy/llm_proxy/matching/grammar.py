"""Parses `--match` and matching rules: `uuids`, `ignore=$.metadata.trace`, `claude-code`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from llm_proxy.cassette.schema import LONGEST_WORD, MOST_RULES, is_line1_word
from llm_proxy.errors import UsageError, printable
from llm_proxy.matching.normalisers import NORMALISERS
from llm_proxy.matching.presets import PRESETS
from llm_proxy.matching.rules import MatchRule, RuleSet

_RULE: Final = re.compile(r"\s*([a-z][a-z0-9-]*)\s*(?:@([0-9]+)\s*)?(?:=(.*))?", re.DOTALL)
_SHARE: Final = re.compile(r"0?\.[5-9][0-9]{0,3}|1(?:\.0{1,4})?")
_SHOWN: Final = 80
"""Characters of a rule in a message."""


@dataclass(frozen=True, slots=True)
class MatchSettings:
    """How alike a cassette must be to answer."""

    is_exact: bool = False
    """Whether no rule counts, whatever is set."""
    minimum_similarity: float | None = None
    """Where none is the same: how alike, from 0 to 1, the nearest must be that answers."""


def parse_match(text: str) -> MatchSettings:
    """What `exact`, `normalised` or `nearest:0.9` means.  Raises `UsageError` for anything else."""
    word, colon, share = text.strip().partition(":")
    match word:
        case "exact" if not colon:
            return MatchSettings(is_exact=True)
        case "normalised" if not colon:
            return MatchSettings()
        case "nearest" if _SHARE.fullmatch(share):
            return MatchSettings(minimum_similarity=float(share))
        case _:
            raise UsageError(
                f"'{printable(text, _SHOWN)}' is no way to match: write exact, normalised, or "
                "nearest:0.9 with the share, from 0.5 to 1, that must be alike"
            )


def parse_rules(texts: Iterable[str]) -> RuleSet:
    """The rules that these texts spell, in their order.

    Raises `UsageError` as `rule_of` does, and for more of them than a cassette can name.
    """
    rules = tuple(map(parse_rule, texts))
    if len(rules) > MOST_RULES:
        raise UsageError(f"there are {len(rules)} rules: give at most {MOST_RULES}")
    return RuleSet(rules)


def parse_rule(text: str) -> MatchRule:
    """The rule that a text spells: `NAME`, or `NAME=ARGUMENT`.

    Raises `UsageError` that says what is wrong with it.
    """
    match = _RULE.fullmatch(text)
    if match is None:
        raise UsageError(
            f"'{printable(text, _SHOWN)}' is no rule: write NAME or NAME=ARGUMENT, such as uuids, "
            "or ignore=$.metadata.trace"
        )
    name, version, argument = match.groups()
    rule = _make_rule(name, argument)
    if not is_line1_word(str(rule)):
        raise UsageError(
            f"'{printable(text, _SHOWN)}' cannot be named by a cassette: a rule has at most "
            f"{LONGEST_WORD} characters, and no line ends, tabs or other control characters"
        )
    if version is not None and int(version) != rule.version:
        raise UsageError(
            f"{name} is at version {rule.version} here, not {printable(version, 20)}: "
            "leave the version out"
        )
    return rule


def _make_rule(name: str, argument: str | None) -> MatchRule:
    """The rule of that name.  Raises `UsageError` where there is none."""
    if (preset := PRESETS.get(name)) is not None:
        if argument is not None:
            raise UsageError(f"{name} is a preset and takes no argument: write {name} alone")
        return preset.combined_rule()
    kind = NORMALISERS.get(name)
    if kind is None:
        known = [*NORMALISERS, *PRESETS]
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise UsageError(f"{printable(name, _SHOWN)} is no rule: {hint}")
    if kind.argument_name and not (argument or "").strip():
        raise UsageError(f"{name} needs {kind.argument_name}: write {name}={kind.example}")
    if not kind.argument_name and argument is not None:
        raise UsageError(f"{name} takes no argument: write {name} alone")
    return kind.make_rule((argument or "").strip())
