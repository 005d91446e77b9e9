"""Writes converted fixtures into a folder of scenarios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llm_proxy.importing import RefusedItem, aimock
from llm_proxy.importing.aimock import ConvertedFixture
from llm_proxy.importing.source import AlreadyImported, UnreadableFile
from llm_proxy.shell.importing.files import session_names


@dataclass(frozen=True, slots=True)
class ScenarioFileReport:
    """What became of a file of fixtures."""

    path: Path | None
    """The file of its scenarios, which is there now or would be; None where there are none."""
    results: tuple[ConvertedFixture | AlreadyImported | RefusedItem, ...]


@dataclass(frozen=True, slots=True)
class ScenarioFolder:
    """A folder that gets a file of scenarios for each file of fixtures, called like it."""

    folder: Path = Path("scenarios")
    names: Mapping[Path, str] = field(default_factory=dict)
    """What the scenarios of each file are called."""

    def write_scenarios(
        self, path: Path, fixtures: Sequence[Any], *, is_dry: bool
    ) -> ScenarioFileReport:
        """Write the scenarios of a file, or only say what would be written.

        A file that is there is never changed.  Raises `Unreadable` where one is there that says
        something else, or where it cannot be written.
        """
        name = self.names.get(path) or session_names([path])[path]
        script = aimock.convert_fixtures(fixtures, name, path.name)
        if not script.text:
            return ScenarioFileReport(None, script.results)
        place = self.folder / f"{name}.yaml"
        data = script.text.encode()
        if not _is_same_file(place, data) if is_dry else _write_if_absent(place, data):
            return ScenarioFileReport(place, script.results)
        before = (
            AlreadyImported(result.number) if isinstance(result, ConvertedFixture) else result
            for result in script.results
        )
        return ScenarioFileReport(place, tuple(before))


def _write_if_absent(place: Path, data: bytes) -> bool:
    """Whether it was written; not where it is there."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("xb") as file:
            file.write(data)
    except FileExistsError:
        return not _is_same_file(place, data)
    except OSError as error:
        raise UnreadableFile(f"{place} cannot be written: {error.strerror}") from None
    return True


def _is_same_file(place: Path, data: bytes) -> bool:
    """Whether the file is there, and says just this.  Raises `Unreadable` for another one."""
    try:
        found = place.read_bytes()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise UnreadableFile(f"{place} cannot be read: {error.strerror}") from None
    if found != data:
        raise UnreadableFile(
            f"{place} is there and says something else: move it away, or name another folder with "
            "--scenarios"
        )
    return True
