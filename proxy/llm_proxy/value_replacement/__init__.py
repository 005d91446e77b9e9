"""Replaces recorded values by those of the requesting client.

    names of both requests ──▶ values ──▶ changes of texts ──▶ edits of bytes ──▶ the recording

Rules give names to what a client calls otherwise in each run, such as an id or a folder.  Where a
request is answered by the recording of one that has the same names for other values, the answer
speaks of the recorded ones.  What a client does next, it does with what it is told: so it is told
its own.  All else stays byte for byte; reads and messages end where they ended.
"""

from llm_proxy.value_replacement.cassette_values import rename_values
from llm_proxy.value_replacement.values import ValueReplacements, value_replacements

__all__ = ["ValueReplacements", "rename_values", "value_replacements"]
