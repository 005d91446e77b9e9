"""What faults take of the world: files of rules, a clock."""

from __future__ import annotations

from pathlib import Path

from llm_proxy.errors import UsageError
from llm_proxy.faults.document import FaultDocument
from llm_proxy.faults.grammar import rules_of
from llm_proxy.faults.injector import Conditions
from llm_proxy.faults.place import AtFraction
from llm_proxy.faults.rule import Rule
from llm_proxy.scenario.documents import loading
from llm_proxy.shell.running.settings import Settings
from llm_proxy.shell.running.simulating import clock

_LARGEST = 1024 * 1024


def read_rules(path: Path) -> tuple[Rule, ...]:
    """The rules of a file.  Raises `UsageError` for one that cannot be read, or holds none."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise UsageError(f"--faults {path} cannot be read: {error.strerror}") from None
    if len(data) > _LARGEST:
        raise UsageError(f"--faults {path}: it is larger than {_LARGEST} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"--faults {path}: it is no UTF-8") from None
    is_json = path.suffix.lower() == ".json"
    document = loading.one(FaultDocument, str(path), text, is_json=is_json)
    try:
        return rules_of(document.faults)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


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
