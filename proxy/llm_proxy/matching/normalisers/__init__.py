"""Normalisers that keys can apply, one per file.

A normaliser takes a document and gives it without what it overlooks.  What tells things apart,
such as an id, becomes a name of ours by its place: the same id has the same name wherever it
stands, so that two requests which use their ids alike are alike.
"""

from types import MappingProxyType
from typing import Final

from llm_proxy.matching.normalisers.call_ids import CALL_IDS
from llm_proxy.matching.normalisers.definition import NormaliserKind
from llm_proxy.matching.normalisers.ignore import IGNORE
from llm_proxy.matching.normalisers.paths import PATHS
from llm_proxy.matching.normalisers.regex import REGEX
from llm_proxy.matching.normalisers.timestamps import TIMESTAMPS
from llm_proxy.matching.normalisers.uuids import UUIDS
from llm_proxy.matching.normalisers.whitespace import WHITESPACE

NORMALISERS: Final = MappingProxyType(
    {kind.name: kind for kind in (WHITESPACE, TIMESTAMPS, UUIDS, CALL_IDS, PATHS, REGEX, IGNORE)}
)
"""All of them by name, in the order in which they are told of."""

__all__ = ["NORMALISERS", "NormaliserKind"]
