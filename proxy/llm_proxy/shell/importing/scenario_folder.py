"""Writes converted fixtures into a folder of scenarios."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llm_proxy.importing import RefusedItem, aimock
from llm_proxy.importing.aimock import ConvertedFixture
from llm_proxy.importing.source import AlreadyImportedItem, UnreadableFile
from llm_proxy.shell.importing.files import assign_session_names


@dataclass(frozen=True, slots=True)
class ScenarioFileReport:
    """The result of converting one file of fixtures."""

    path: Path | None
    """The scenario file, which was written or would be; None if there are no scenarios."""
    results: tuple[ConvertedFixture | AlreadyImportedItem | RefusedItem, ...]


@dataclass(frozen=True, slots=True)
class ScenarioFolder:
    """A folder that gets one scenario file, of the same name, for each file of fixtures."""

    folder: Path = Path("scenarios")
    scenario_names: Mapping[Path, str] = field(default_factory=dict)
    """The name of the scenario file, by file of fixtures."""

    def write_fixtures_as_scenarios(
        self, path: Path, fixtures: Sequence[Any], *, is_dry_run: bool
    ) -> ScenarioFileReport:
        """Convert the fixtures of a file and write the scenarios, unless it is a dry run.

        An existing file is never changed.  Raises `UnreadableFile` if there is one with other
        content, or if the file cannot be written.
        """
        name = self.scenario_names.get(path) or assign_session_names([path])[path]
        converted = aimock.convert_fixtures(fixtures, name, path.name)
        if not converted.yaml_text:
            return ScenarioFileReport(None, converted.results)
        target = self.folder / f"{name}.yaml"
        content = converted.yaml_text.encode()
        if (
            not _has_same_content(target, content)
            if is_dry_run
            else _write_if_absent(target, content)
        ):
            return ScenarioFileReport(target, converted.results)
        results = (
            AlreadyImportedItem(result.number) if isinstance(result, ConvertedFixture) else result
            for result in converted.results
        )
        return ScenarioFileReport(target, tuple(results))


def _write_if_absent(target: Path, content: bytes) -> bool:
    """Write the file; False if it exists with the same content."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            file.write(content)
    except FileExistsError:
        return not _has_same_content(target, content)
    except OSError as error:
        raise UnreadableFile(f"{target} cannot be written: {error.strerror}") from None
    return True


def _has_same_content(target: Path, content: bytes) -> bool:
    """Whether the file exists with this content.  Raises `UnreadableFile` for other content."""
    try:
        existing = target.read_bytes()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise UnreadableFile(f"{target} cannot be read: {error.strerror}") from None
    if existing != content:
        raise UnreadableFile(
            f"{target} is there and says something else: move it away, or name another folder with "
            "--scenarios"
        )
    return True
