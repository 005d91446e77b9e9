"""Writes YAML that people edit: one field per line, readable multi-line texts.

The output has the same meaning in YAML 1.1 and 1.2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

from llm_proxy.dialects.lenient_json import join_pieces
from llm_proxy.turns import Json

_NUMBER: Final = re.compile(
    r"[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?|0o[0-7]+|0x[0-9a-fA-F]+|[-+]?\.(?:inf|Inf|INF)"
)
"""Texts that YAML 1.2 parses as numbers; PyYAML quotes those of 1.1 itself."""
_UNUSUAL_LINE_END: Final = re.compile("[\x85\u2028\u2029]")
"""Line ends that not every parser recognises."""
_NO_WRAP_WIDTH: Final = 1_000_000
_SPECIAL_IN_PATTERN: Final = re.compile(r"([\\.^$*+?{}\[\]|()])")


def literal_pattern(text: str) -> str:
    """A readable regular expression that matches exactly this text."""
    return _SPECIAL_IN_PATTERN.sub(r"\\\1", text).replace("\n", r"\n")


def yaml_block(value: Mapping[str, Json]) -> str:
    """An object as block YAML, one field per line, in order."""
    text: str = yaml.dump(
        value,
        Dumper=_ReadableDumper,
        sort_keys=False,
        allow_unicode=True,
        width=_NO_WRAP_WIDTH,
        default_flow_style=False,
    )
    return text


class _ReadableDumper(yaml.SafeDumper):
    """Indented lists, no anchors, and the most readable style for each text."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        return super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_data(self, data: Any) -> yaml.Node:
        if isinstance(data, str):
            return self._represent_text(join_pieces([data]))
        return super().represent_data(data)

    def _represent_text(self, text: str) -> yaml.Node:
        style = None
        if _UNUSUAL_LINE_END.search(text):
            style = '"'
        elif "\n" in text:
            style = "|"
        elif _NUMBER.fullmatch(text):
            style = "'"
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)
