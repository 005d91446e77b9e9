"""Finds the match rules with which a near miss would match."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from llm_proxy.diff.json_leaves import RequestDifference
from llm_proxy.matching import (
    KeyDocument,
    NormaliserRule,
    NormalizedDocument,
    RuleSet,
    document_key,
)
from llm_proxy.matching.normalisers import NORMALISERS
from llm_proxy.matching.normalisers.ignore import RemovalTree, add_ignored_path, without_ignored
from llm_proxy.matching.rules import ApplyRule
from llm_proxy.misses.document_diff import list_differences
from llm_proxy.misses.prompt_fields import PROMPT_FIELDS

_PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTABLE_NAME: Final = re.compile(r"""[^"'\\]+""")
"""Member names that a quoted JSONPath step can hold without escapes."""
_MAX_PATH_CHARS: Final = 200
"""Maximum length of a JSONPath in a suggested rule."""
MAX_ADVISED_DIFFERENCES: Final = 8
"""With more differences it is a different request, whatever rules could ignore."""
_MAX_TRIED_DIFFERENCES: Final = 200
"""With more differences no normalisers are tried."""
_MAX_TRIED_BODY_BYTES: Final = 4 * 1024 * 1024
"""With a larger body no normalisers are tried."""

_RECORD_INSTEAD: Final = "record it instead"
_MODEL_WARNING: Final = f"another model gives other answers: {_RECORD_INSTEAD}"
_STREAM_WARNING: Final = (
    f"a stream would answer what asked for none, or the other way round: {_RECORD_INSTEAD}"
)
_PROMPT_WARNING: Final = f"what is asked would not count: {_RECORD_INSTEAD}"


@dataclass(frozen=True, slots=True)
class DifferenceRemedy:
    """A rule that ignores one difference."""

    rule: str = ""
    """A `--normalise` argument; empty if no rule ignores the difference."""
    warning: str = ""
    """Why the rule is probably wrong; empty if it may be right."""


@dataclass(frozen=True, slots=True)
class MissAdvice:
    """The rules that would make a cassette match a request."""

    remedies: tuple[DifferenceRemedy, ...]
    """One per difference, in the same order."""
    rules: tuple[str, ...]
    """With all of these the cassette matches (verified); empty if recording is the right remedy.

    The rules of the run come first, because rules on the command line replace them.
    """


def miss_advice(
    requested: KeyDocument,
    stored: KeyDocument,
    differences: Sequence[RequestDifference],
    rules: RuleSet,
) -> MissAdvice:
    """Remedies for the differences of two documents to which `rules` are already applied."""
    if rules.is_exact:
        return MissAdvice((DifferenceRemedy(),) * len(differences), ())
    rule_by_path = _normaliser_by_path(requested, stored, differences, rules)
    remedies = tuple(
        DifferenceRemedy(rule_by_path[difference.path])
        if difference.path in rule_by_path
        else _ignore_remedy(difference)
        for difference in differences
    )
    if any(remedy.warning or not remedy.rule for remedy in remedies):
        return MissAdvice(remedies, ())
    if len(differences) > MAX_ADVISED_DIFFERENCES:
        return MissAdvice(remedies, ())
    suggested = tuple(dict.fromkeys(remedy.rule for remedy in remedies))
    normaliser_steps = {
        normaliser.name: normaliser.normalize_document
        for normaliser in _argumentless_normalisers(rules)
    }
    ignore_steps = {
        f"ignore={_jsonpath_of(difference.path_steps)}": _make_ignore_function(
            difference.path_steps
        )
        for difference in differences
    }
    steps = [normaliser_steps.get(rule) or ignore_steps[rule] for rule in suggested]
    keys_match = _key_after_rules(requested, steps) == _key_after_rules(stored, steps)
    run_rules = tuple(rule.option_text for rule in rules.rules)
    return MissAdvice(remedies, (*run_rules, *suggested) if keys_match else ())


def _normaliser_by_path(
    requested: KeyDocument,
    stored: KeyDocument,
    differences: Sequence[RequestDifference],
    rules: RuleSet,
) -> dict[str, str]:
    """By path of a difference, the name of the first argumentless normaliser that removes it."""
    rule_by_path: dict[str, str] = {}
    if (
        len(differences) > _MAX_TRIED_DIFFERENCES
        or max(len(requested.canonical_body()), len(stored.canonical_body()))
        > _MAX_TRIED_BODY_BYTES
    ):
        return rule_by_path
    for rule in _argumentless_normalisers(rules):
        remaining = list_differences(
            rule.normalize_document(requested).document, rule.normalize_document(stored).document
        )
        remaining_paths = tuple(difference.path for difference in remaining)
        for difference in differences:
            if not any(_paths_overlap(difference.path, path) for path in remaining_paths):
                rule_by_path.setdefault(difference.path, rule.name)
    return rule_by_path


def _argumentless_normalisers(rules: RuleSet) -> Iterator[NormaliserRule]:
    names_in_use = {step.name for rule in rules.rules for step in (rule, *rule.preset_rules)}
    return (
        normaliser.make_rule()
        for normaliser in NORMALISERS.values()
        if not normaliser.argument_description and normaliser.name not in names_in_use
    )


def _paths_overlap(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return long.startswith(short) and long[len(short) :][:1] in {"", ".", "["}


def _ignore_remedy(difference: RequestDifference) -> DifferenceRemedy:
    path = _jsonpath_of(difference.path_steps)
    if not path:
        return DifferenceRemedy()
    match difference.path_steps[0]:
        case "model":
            warning = _MODEL_WARNING
        case "stream":
            warning = _STREAM_WARNING
        case name if name in PROMPT_FIELDS:
            warning = _PROMPT_WARNING
        case _:
            warning = ""
    return DifferenceRemedy(f"ignore={path}", warning)


def _jsonpath_of(parts: Sequence[str | int]) -> str:
    """The JSONPath of some steps; empty if too long or if a name needs escapes."""
    path = "$"
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        elif _PLAIN_NAME.fullmatch(part):
            path += f".{part}"
        elif _QUOTABLE_NAME.fullmatch(part) and part.isprintable():
            path += f'["{part}"]'
        else:
            return ""
    return path if parts and len(path) <= _MAX_PATH_CHARS else ""


def _make_ignore_function(parts: tuple[str | int, ...]) -> ApplyRule:
    """The document transformation of an `ignore` rule with this path."""
    ignored_paths: RemovalTree = {}
    add_ignored_path(ignored_paths, parts)

    def apply(document: KeyDocument) -> NormalizedDocument:
        return NormalizedDocument(
            replace(document, body=without_ignored(document.body, ignored_paths))
        )

    return apply


def _key_after_rules(document: KeyDocument, steps: Sequence[ApplyRule]) -> str:
    """The key of a document after these rules, applied in order."""
    for apply in steps:
        document = apply(document).document
    return document_key(document)
