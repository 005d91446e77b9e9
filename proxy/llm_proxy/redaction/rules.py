"""The redaction rules of a run: what is replaced beyond the known credentials.

All rules apply unless `--no-redact NAME` disables one; `--redact RULE` adds the optional ones and
the project's own: the name of a field, a JSONPath, or a pattern of RE2.  None of them depends on
the environment, so that the same request has the same key everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from propcache.api import cached_property

from llm_proxy.cassette.model import is_valid_meta_text
from llm_proxy.errors import UsageError, name_hint, printable_excerpt
from llm_proxy.expressions import compile_expression
from llm_proxy.redaction.finder import KnownSecret, SecretFinder, pattern_index
from llm_proxy.redaction.patterns import SECRET_PATTERNS, SecretPattern
from llm_proxy.redaction.placeholders import CLIENT_PLACEHOLDER, OPERATOR_PLACEHOLDER

REDACTION_RULES_VERSION: Final = 3
"""The version of the rules in this package, stored in every cassette."""

FIELD_NAMES_RULE: Final = "secret-fields"
"""The rule for values of fields whose name is that of a secret."""
FIELD_RULE: Final = "field"
"""The rule for values of a project's own fields, by name or JSONPath."""
EXPRESSION_RULE: Final = "regex"
"""The rule for what a project's own pattern matches."""
_CLIENT_SECRET: Final = KnownSecret("client-credentials", CLIENT_PLACEHOLDER)
_OPERATOR_SECRET: Final = KnownSecret("environment", OPERATOR_PLACEHOLDER)

_FIELD_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
_MAX_SHOWN_CHARS: Final = 80
"""The most characters of a rule that an error message quotes."""
_ADDED: Final = "redact"
_DISABLED: Final = "no-redact"


@dataclass(frozen=True)
class RedactionRules:
    """The rules of a run."""

    patterns: tuple[SecretPattern, ...] = ()
    """The shapes of secrets."""
    has_field_names: bool = False
    """Whether values of request fields are replaced whose name is that of a secret."""
    fields: frozenset[str] = frozenset()
    """The names of a project's own fields, in requests and responses."""
    paths: tuple[str, ...] = ()
    """JSONPaths of a project's own values, in requests and in messages of responses."""
    expressions: tuple[str, ...] = ()
    """A project's own patterns, of RE2."""
    texts: tuple[str, ...] = ()
    """How they differ from the default, as stored in line 1 of a cassette."""

    @cached_property
    def _own_finder(self) -> SecretFinder:
        compiled = [(EXPRESSION_RULE, compile_expression(text)) for text in self.expressions]
        return SecretFinder(pattern_index(self.patterns), {}, compiled)

    def finder(self, known_secrets: Mapping[bytes, KnownSecret] = {}) -> SecretFinder:
        """A finder of these shapes, and of known secrets."""
        return self._own_finder.with_known(known_secrets) if known_secrets else self._own_finder


NO_REDACTION: Final = RedactionRules()
"""No rules: only known secrets are replaced."""


def has_older_rules(redaction_rules_version: object) -> bool:
    """Whether a cassette was redacted by older rules: the version in its line 1, of any type."""
    return not isinstance(redaction_rules_version, int) or (
        redaction_rules_version < REDACTION_RULES_VERSION
    )


def client_secrets(spellings: Iterable[bytes]) -> dict[bytes, KnownSecret]:
    """The client's credentials, for a finder."""
    return dict.fromkeys(spellings, _CLIENT_SECRET)


def operator_secrets(spellings: Iterable[bytes]) -> dict[bytes, KnownSecret]:
    """The secrets of the operator and of the environment, for a finder."""
    return dict.fromkeys(spellings, _OPERATOR_SECRET)


def parse_redaction_rules(
    added: Iterable[str] = (), disabled: Iterable[str] = ()
) -> RedactionRules:
    """The default rules with those of `--redact` added and those of `--no-redact` disabled.

    Raises `UsageError` for an unknown or invalid rule.
    """
    by_name = {pattern.name: pattern for pattern in SECRET_PATTERNS}
    names = {name for name, pattern in by_name.items() if not pattern.is_optional}
    fields, paths, expressions = set[str](), list[str](), list[str]()
    texts: list[str] = []
    for text in dict.fromkeys(map(str.strip, added)):
        shown = printable_excerpt(text, _MAX_SHOWN_CHARS)
        if text in by_name:
            names.add(text)
        elif text.startswith("$"):
            _check_path(text, shown)
            paths.append(text)
        elif text.startswith("regex="):
            compile_expression(text.removeprefix("regex="))
            expressions.append(text.removeprefix("regex="))
        elif _FIELD_NAME.fullmatch(text):
            fields.add(text)
        else:
            raise UsageError(
                f"'{shown}' is not a redaction rule; use email, phone, home-paths, a field name, "
                "a JSONPath such as $.metadata.user, or regex=PATTERN"
            )
        if not is_valid_meta_text(text):
            raise UsageError(
                f"the redaction rule '{shown}' is too long or contains control characters; use a "
                "shorter rule without control characters"
            )
        if text not in by_name or by_name[text].is_optional:
            texts.append(f"{_ADDED}={text}")
    has_field_names = True
    for name in dict.fromkeys(map(str.strip, disabled)):
        if name == FIELD_NAMES_RULE:
            has_field_names = False
        elif name in by_name:
            names.discard(name)
        else:
            hint = name_hint(
                name,
                (*by_name, FIELD_NAMES_RULE),
                "docs/explanation/security.md lists all rules",
            )
            raise UsageError(
                f"unknown redaction rule '{printable_excerpt(name, _MAX_SHOWN_CHARS)}'; {hint}"
            )
        texts.append(f"{_DISABLED}={name}")
    return RedactionRules(
        tuple(pattern for pattern in SECRET_PATTERNS if pattern.name in names),
        has_field_names,
        frozenset(fields),
        tuple(paths),
        tuple(expressions),
        tuple(texts),
    )


DEFAULT_REDACTION: Final = parse_redaction_rules()
"""The rules of a run without options."""


def split_rule_texts(texts: Iterable[str]) -> tuple[list[str], RedactionRules]:
    """Match rules and redaction rules, from the rules in line 1 of a cassette.

    Raises `UsageError` for an unknown or invalid redaction rule.
    """
    match_rules: list[str] = []
    added, disabled = list[str](), list[str]()
    for text in texts:
        name, _, argument = text.partition("=")
        match name:
            case "redact":
                added.append(argument)
            case "no-redact":
                disabled.append(argument)
            case _:
                match_rules.append(text)
    if not added and not disabled:
        return match_rules, DEFAULT_REDACTION
    return match_rules, parse_redaction_rules(added, disabled)


def _check_path(text: str, shown: str) -> None:
    from llm_proxy import json_paths  # noqa: PLC0415 # 0.03 s, only where a rule has a path

    try:
        json_paths.compile_path(text)
    except ValueError as error:
        raise UsageError(f"'{shown}' is not a valid JSONPath (RFC 9535): {error}") from None
