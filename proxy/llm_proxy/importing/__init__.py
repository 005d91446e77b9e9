"""Imports recordings of other tools as cassettes, fixtures as scenarios; see `docs/importing.md`.

opening     bytes become a document: JSON, a line of JSON each, YAML; gzip is undone
formats     each tool's files: what they claim, and the exchanges in them
reading     a file's exchanges, each with its number, or with why it is none
codings     bodies that are compressed, or whose heads only say so
hosts       the provider that lives at a host
times       when the pieces came, or could have come
aimock      fixtures that script answers, and hold no exchange, as scenarios
making      an exchange, routed, redacted, keyed and timed as if it had been recorded here

Files come from anywhere: one can do nothing but be refused, with the place and the reason.
"""

from llm_proxy.importing.conversion import ImportedCassette, ImportSettings, make_cassette
from llm_proxy.importing.recordings import ForeignRecording, NumberedExchange, parse_recording
from llm_proxy.importing.source import RefusedItem

__all__ = [
    "ForeignRecording",
    "ImportSettings",
    "ImportedCassette",
    "NumberedExchange",
    "RefusedItem",
    "make_cassette",
    "parse_recording",
]
