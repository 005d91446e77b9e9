"""Presets: rules for clients whose requests differ from run to run.

Of the values that a client announces, such as the date, only the announced value is ignored: a
question about a date is still another question for another date.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from llm_proxy.matching.keys import KeyDocument, NormaliserRule, NormalizedDocument, RuleSet
from llm_proxy.matching.normalisers import CALL_IDS, PATHS, UUIDS, map_body_texts, map_texts
from llm_proxy.turns import Json

_MONTH: Final = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?"
    r"|Sep(?:t|tember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_WEEKDAY: Final = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},? )?"
_CLOCK: Final = (
    r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?(?:[ \u202f]?(?:[APap][Mm]\b|[ap]\.m\.))?"
    r"(?: ?(?:Z\b|UTC\b|GMT\b|[+-][0-9]{2}:?[0-9]{2}\b)){0,2}"
)
_DATE: Final = (
    rf"{_WEEKDAY}(?:[0-9]{{4}}[-/][0-9]{{1,2}}[-/][0-9]{{1,2}}"
    r"|[0-9]{1,2}[/.][0-9]{1,2}[/.][0-9]{2,4}"
    rf"|{_MONTH} [0-9]{{1,2}}(?:st|nd|rd|th)?,? [0-9]{{4}}"
    rf"|[0-9]{{1,2}}(?:st|nd|rd|th)? {_MONTH},? [0-9]{{4}})"
)
_NOW: Final = rf"(?:{_DATE}(?:(?:T|,? (?:at )?){_CLOCK})?|{_CLOCK}(?:,? (?:on )?{_DATE})?)"
_ANNOUNCED: Final = (
    r"\b(?:[Tt]oday(?:['\u2019]s [Dd]ate)?|[Tt]he (?:date|time)"
    r"|(?:[Cc]urrent|[Ss]ystem)[ _]?(?:[Dd]ate and time|[Dd]ate[ _]?[Tt]ime|[Dd]ate|[Tt]ime))"
    r"(?: today| now)?(?: \([^()\n]{1,40}\))?[`'\"]?(?: is|:|=|>)(?: now)?[ \t]{0,9}[`'\"*]{0,3}"
)
_ENDED: Final = r"(?![0-9]|[.:][0-9])"
"""Not followed by more digits: that would be a version, an address or a decimal number."""
_HISTORY_MEMBERS: Final = frozenset(("input", "messages"))
"""The members of a body that hold messages and tool results."""


def _preset(name: str, version: int, *client_rules: NormaliserRule) -> NormaliserRule:
    """All rules that one client needs, as one rule.

    `client_rules` are for values that only this client sends.  `version` is incremented whenever
    the preset normalises a document differently than before.
    """
    rules = RuleSet(
        (
            CURRENT_DATE_RULE,
            *client_rules,
            PATHS.make_rule(),
            CALL_IDS.make_rule(),
            UUIDS.make_rule(),
        )
    )
    return NormaliserRule(name, version, rules.normalize_document, preset_rules=rules.rules)


def _announced_value_rule(
    name: str,
    *patterns: str,
    map_document: Callable[[KeyDocument, Callable[[str], str]], KeyDocument] = map_body_texts,
) -> NormaliserRule:
    """A rule that replaces each match after its first group by `<name>`.

    The patterns must search a text of any length in linear time.
    """
    compiled_patterns = [re.compile(pattern) for pattern in patterns]

    def replace_values(text: str) -> str:
        for pattern in compiled_patterns:
            text = pattern.sub(lambda found: f"{found[1]}<{name}>", text)
        return text

    return NormaliserRule(
        name, 2, lambda document: NormalizedDocument(map_document(document, replace_values))
    )


def _map_tool_results(document: KeyDocument, change: Callable[[str], str]) -> KeyDocument:
    """The document with the texts of tool results in the history of OpenAI's dialects mapped."""
    if document.body_kind != "json" or not isinstance(document.body, dict):
        return document
    body = {
        name: [_map_tool_result(item, change) for item in value]
        if name in _HISTORY_MEMBERS and isinstance(value, list)
        else value
        for name, value in document.body.items()
    }
    return replace(document, body=body)


def _map_tool_result(item: Json, change: Callable[[str], str]) -> Json:
    """An item of a history, with its texts mapped if it is a tool result."""
    if not isinstance(item, dict):
        return item
    match item:
        case {"type": str(kind), "output": output} if kind.endswith("call_output"):
            return {**item, "output": map_texts(output, change)}
        case {"role": "tool", "content": content}:
            return {**item, "content": map_texts(content, change)}
        case _:
            return item


CURRENT_DATE_RULE: Final = _announced_value_rule("today", rf"({_ANNOUNCED}){_NOW}{_ENDED}")
"""Ignores an announced current date and time: `Today's date is 2026-11-22`."""

_LINE: Final = r"\n ?-? ?"
_PLATFORM: Final = r"(?:^|\n) ?-? ?Platform: [^\r\n]{1,60}"
"""The line above shell and OS version in Claude Code's environment block."""
_SHELL: Final = rf"(?:{_LINE}Shell: [^\r\n]{{1,200}})?"
_LINES_ABOVE: Final = r"(?:(?:Chunk ID|Exit code|Process exited with code):? [^\r\n]{1,60}\n){0,3}"
"""Lines that may precede the wall time above the output of a command of Codex."""

_ALL_PRESETS: Final = (
    # Claude Code sends the date, the machine and local folders to the model.
    _preset(
        "claude-code",
        2,
        _announced_value_rule(
            "machine",
            rf"({_PLATFORM}{_LINE}Shell: )[^\r\n]{{1,200}}",
            rf"({_PLATFORM}{_SHELL}{_LINE}OS Version: )[^\r\n]{{1,200}}",
        ),
    ),
    # Codex CLI sends the date, the machine, random chunk ids and durations of commands.
    _preset(
        "codex",
        2,
        _announced_value_rule("machine", r"(<(?:shell|timezone)>)[^<>\r\n]{1,100}"),
        _announced_value_rule(
            "chunk", r"\A(Chunk ID: )[0-9a-f]{1,32}\b", map_document=_map_tool_results
        ),
        _announced_value_rule(
            "duration",
            rf"\A({_LINES_ABOVE}Wall time: )[0-9.]{{1,20}} seconds",
            map_document=_map_tool_results,
        ),
    ),
    # These generate ids of messages and calls, and apps send the date.
    _preset("langchain", 2),
    _preset("pydantic-ai", 2),
    _preset("ai-sdk", 2),
)
PRESETS: Final[Mapping[str, NormaliserRule]] = {preset.name: preset for preset in _ALL_PRESETS}
"""All presets by name."""
