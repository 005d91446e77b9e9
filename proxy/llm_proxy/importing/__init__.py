"""Imports recordings of other tools: see `docs/how-to/importing.md`.

source        the values of foreign files: exchanges, losses, errors
file_parsing  parses a file: JSON, JSON Lines, YAML as recording libraries write it; undoes gzip
fields        reads fields, headers, bodies, times, URLs and messages
formats       one module per tool: recognises its files and parses their exchanges
conversion    an exchange as a cassette: routed, redacted, keyed and timed as if recorded here
aimock        fixtures, which script responses and hold no exchange, as scenarios

Files are untrusted: a malformed one is refused, with the position and the reason.
"""

from llm_proxy.importing.conversion import ImportedCassette, ImportSettings, convert_to_cassette
from llm_proxy.importing.formats import ForeignRecording, NumberedExchange, parse_recording
from llm_proxy.importing.source import RefusedItem

__all__ = [
    "ForeignRecording",
    "ImportSettings",
    "ImportedCassette",
    "NumberedExchange",
    "RefusedItem",
    "convert_to_cassette",
    "parse_recording",
]
