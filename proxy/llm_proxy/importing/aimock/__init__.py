"""Fixtures of aimock become scenarios: they script answers, and hold no request and no bytes.

fixtures   a file of fixtures as a file of scenarios
matching   which requests a fixture answers
answering  what it answers
timing     how its answer streams, and what goes wrong with it
losses     what of it no scenario says, or says otherwise
"""

from llm_proxy.importing.aimock.fixtures import TITLE, Script, Scripted, claims, script

__all__ = ["TITLE", "Script", "Scripted", "claims", "script"]
