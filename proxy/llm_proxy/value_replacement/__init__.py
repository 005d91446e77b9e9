"""Replaces recorded values by those of the requesting client.

    aliases of both requests ──▶ values ──▶ text changes ──▶ byte edits ──▶ the recording

Match rules replace values that differ in each run, such as ids and folders, by aliases.  If a
recording answers a request that has other values for the same aliases, the recorded response
contains the recorded values.  The client would go on to use them, so they are replaced by its own.
Everything else stays byte for byte; reads and messages end at the same places.
"""

from llm_proxy.value_replacement.values import (
    ValueReplacements,
    replace_recorded_values,
    value_replacements,
)

__all__ = ["ValueReplacements", "replace_recorded_values", "value_replacements"]
