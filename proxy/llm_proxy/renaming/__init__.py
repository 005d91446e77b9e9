"""A recording with the values of the client that it is played to, in place of the recorded ones.

    names of both requests ──▶ values ──▶ changes of texts ──▶ edits of bytes ──▶ the recording

Rules give names to what a client calls otherwise in each run, such as an id or a folder.  Where a
request is answered by the recording of one that has the same names for other values, the answer
speaks of the recorded ones.  What a client does next, it does with what it is told: so it is told
its own.  All else stays byte for byte; reads and messages end where they ended.
"""

from llm_proxy.renaming.recording import renamed
from llm_proxy.renaming.values import Values, values_of

__all__ = ["Values", "renamed", "values_of"]
