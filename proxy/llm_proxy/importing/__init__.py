"""Imports recordings of other tools as cassettes, fixtures as scenarios; see `docs/importing.md`.

source       the values of foreign files: exchanges, losses, errors
documents    parses a file: JSON, JSON Lines, YAML; undoes gzip
yaml_parser  YAML as recording libraries write it
tnetstring   typed netstrings, as mitmproxy writes them
http_text    HTTP/1.1 messages stored as text
fields       checks and converts single fields
formats      one module per tool: recognises its files and parses their exchanges
recordings   a file's exchanges, each with its number, or the reason why it is refused
codings      bodies that are compressed, or whose headers wrongly say so
hosts        the provider of a host
times        arrival times of the body's pieces: from the source, or simulated
aimock       fixtures, which script responses and hold no exchange, as scenarios
conversion   an exchange as a cassette: routed, redacted, keyed and timed as if recorded here

Files are untrusted: a malformed one is refused, with the position and the reason.
"""

from llm_proxy.importing.conversion import ImportedCassette, ImportSettings, convert_to_cassette
from llm_proxy.importing.recordings import ForeignRecording, NumberedExchange, parse_recording
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
