"""What faults take of the world: files of rules, a clock."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from llm_proxy.errors import UsageError
from llm_proxy.faults.document import FaultDocument
from llm_proxy.faults.engine import Conditions
from llm_proxy.faults.grammar import rules_of
from llm_proxy.faults.location import AtFraction
from llm_proxy.faults.rule import Rule
from llm_proxy.scenario.documents import loading
from llm_proxy.shell.running.settings import Settings
from llm_proxy.shell.running.simulation import clock

_LARGEST: Final = 1024 * 1024
"""Bytes of a file of rules."""


def read_rules(path: Path) -> tuple[Rule, ...]:
    """The rules of a file.  Raises `UsageError` for one that cannot be read, or holds none."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise UsageError(f"--faults {path} cannot be read: {error.strerror}") from None
    if len(data) > _LARGEST:
        raise UsageError(f"--faults {path}: it is larger than {_LARGEST} bytes")
    return rules_of(loading.one_file(FaultDocument, str(path), data, "faults").faults)


def check_live(mode: str, rules: tuple[Rule, ...]) -> None:
    """Raises `UsageError` for a rule that could never strike a live answer."""
    for rule in rules:
        if mode == "record" and isinstance(rule.place, AtFraction):
            raise UsageError(
                f"fault '{rule.text}': nobody knows the length of a live stream beforehand, so "
                "fraction= has no meaning in record: place it by after=, bytes=, ms= or at="
            )


def conditions(settings: Settings) -> Conditions:
    """What holds for all rules of a run."""
    how = settings.simulating
    return Conditions(settings.seed, how.silence * 1000, clock(how.clock))
