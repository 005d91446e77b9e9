"""Normalisers that keys can apply, one per file.

A normaliser takes a document and returns it without the differences that it ignores.  A value with
an identity, such as an id, is replaced by an alias numbered by position: the same id has the same
alias everywhere, so two requests that use different ids in the same way become equal.
"""

from types import MappingProxyType
from typing import Final

from llm_proxy.matching.normalisers.call_ids import CALL_IDS
from llm_proxy.matching.normalisers.ignore import IGNORE
from llm_proxy.matching.normalisers.paths import PATHS
from llm_proxy.matching.normalisers.regex import REGEX
from llm_proxy.matching.normalisers.timestamps import TIMESTAMPS
from llm_proxy.matching.normalisers.uuids import UUIDS
from llm_proxy.matching.normalisers.whitespace import WHITESPACE

NORMALISERS: Final = MappingProxyType(
    {
        definition.name: definition
        for definition in (WHITESPACE, TIMESTAMPS, UUIDS, CALL_IDS, PATHS, REGEX, IGNORE)
    }
)
"""All normalisers by name, in the order of the documentation."""
