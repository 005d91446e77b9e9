"""Finds rules that ignore more than the preset `llm-pytest`.

In a test that a model runs, a replay proves something only because a changed tool result, prompt or
tool is another request.  Rules that could hide such a change are looser than the preset allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from llm_proxy.dialects import Dialect
from llm_proxy.matching.keys import NormaliserRule, RuleSet
from llm_proxy.matching.normalisers import IGNORE, REGEX, TIMESTAMPS, WHITESPACE

_LOOSE_NORMALISERS: Final = frozenset(
    definition.name for definition in (WHITESPACE, TIMESTAMPS, REGEX)
)
"""They change texts of the whole body without a trace.

The others, and so all presets, replace values by aliases: another value where the same one was is
another request.
"""
_COUNTED_FIELDS: Final = Dialect.prompt_fields | {
    *("functions", "tool_choice", "toolChoice", "toolConfig", "tool_config", "tool_results"),
    "tools",
}
"""The members of a body that hold the prompt, tools and tool results, in all dialects."""


def looser_rules(rules: RuleSet) -> Iterator[tuple[str, str]]:
    """The rules that ignore more than the preset: each as the name of its option, and its text.

    Redaction is allowed: a secret must not be stored, also if it is no longer compared then.
    """
    for rule in rules.rules:
        if _is_looser(rule):
            yield "normalise", rule.option_text


def _is_looser(rule: NormaliserRule) -> bool:
    if rule.name == IGNORE.name:
        return _reaches_counted_field(rule.argument)
    return rule.name in _LOOSE_NORMALISERS


def _reaches_counted_field(path: str) -> bool:
    """Whether a valid JSONPath can select a part of the prompt, or something that contains it."""
    from jsonpath_rfc9535.segments import JSONPathChildSegment  # noqa: PLC0415 # 0.03 s, only where a rule has a path
    from jsonpath_rfc9535.selectors import NameSelector  # noqa: PLC0415 # as above

    from llm_proxy import json_paths  # noqa: PLC0415 # as above

    segments = json_paths.compile_path(path).segments
    if not segments or not isinstance(segments[0], JSONPathChildSegment):
        return True
    return any(
        not isinstance(selector, NameSelector) or selector.name in _COUNTED_FIELDS
        for selector in segments[0].selectors
    )
