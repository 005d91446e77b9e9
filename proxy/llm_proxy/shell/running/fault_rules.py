"""Reads fault rule files, and builds the conditions of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from llm_proxy.errors import UsageError
from llm_proxy.faults.engine import FaultEngineConfig
from llm_proxy.faults.grammar import parse_rules
from llm_proxy.faults.kind import AtFraction
from llm_proxy.faults.rule import FaultRule, FaultRulesFile
from llm_proxy.scenario.documents import loading
from llm_proxy.shell.running.settings import Settings
from llm_proxy.shell.running.simulation import epoch_clock

_MAX_FILE_BYTES: Final = 1024 * 1024
"""Maximum size of a file of rules."""


def read_fault_rules(path: Path) -> tuple[FaultRule, ...]:
    """The rules in a file.  Raises `UsageError` if it is unreadable or invalid."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--faults {path} cannot be read: {error.strerror}") from None
    if len(data) > _MAX_FILE_BYTES:
        raise UsageError(f"--faults {path}: it is larger than {_MAX_FILE_BYTES} bytes")
    return parse_rules(
        loading.parse_struct(FaultRulesFile, str(path), data, list_field="faults").faults
    )


def check_live_rules(mode: str, rules: tuple[FaultRule, ...]) -> None:
    """Raise `UsageError` for a rule that cannot apply to a live response."""
    for rule in rules:
        if mode == "record" and isinstance(rule.location, AtFraction):
            raise UsageError(
                f"fault '{rule.text}': nobody knows the length of a live stream beforehand, so "
                "fraction= has no meaning in record: place it by after=, bytes=, ms= or at="
            )


def fault_engine_config(settings: Settings) -> FaultEngineConfig:
    """The conditions that all rules of a run share: seed, silence and clock."""
    simulation_options = settings.simulating
    return FaultEngineConfig(
        settings.seed, simulation_options.silence * 1000, epoch_clock(simulation_options.clock)
    )
