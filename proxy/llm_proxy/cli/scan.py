"""`scan`: finds secrets in cassettes and other files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click

from llm_proxy import display, redaction
from llm_proxy.cli.json_documents import cassette_error_document
from llm_proxy.cli.library import (
    checked_library_folder,
    older_rules_message,
    paths_with_progress,
)
from llm_proxy.cli.options import (
    CONFIG_OPTION,
    PATH_TYPE,
    ChoiceType,
    cassettes_option,
    json_option,
    redaction_option,
)
from llm_proxy.cli.output import StyledText, print_json, print_lines, print_note
from llm_proxy.cli.sarif import sarif_document
from llm_proxy.errors import CassetteError, UsageError
from llm_proxy.redaction import RedactionRules
from llm_proxy.scanning import SecretFinding, SecretScan
from llm_proxy.shell.scanning import (
    files_below,
    read_scanned_file,
    read_staged_file,
    staged_files,
)


@dataclass(slots=True)
class ScanResult:
    """What was found in all files."""

    file_count: int = 0
    findings: list[SecretFinding] = field(default_factory=list)
    older: list[str] = field(default_factory=list)
    """The cassettes that were redacted by older rules."""
    errors: list[CassetteError] = field(default_factory=list)


@click.command
@click.argument("paths", nargs=-1, type=PATH_TYPE)
@cassettes_option
@redaction_option
@CONFIG_OPTION
@click.option("--staged", is_flag=True,
              help="Scan the files in the git index.")  # fmt: skip
@click.option("--strict", "fails_if_older", is_flag=True,
              help="Also fail on cassettes redacted by older rules.")  # fmt: skip
@click.option("--format", "output_format", type=ChoiceType(["text", "json", "sarif"]),
              default="text", show_default=True,
              help="Output format; sarif is for code scanning.")  # fmt: skip
@json_option
def scan(
    paths: tuple[Path, ...],
    cassettes: Path,
    rules: RedactionRules,
    *,
    staged: bool,
    fails_if_older: bool,
    output_format: str,
    as_json: bool,
) -> None:
    r"""Find secrets in cassettes and other files.

    PATHS are files and folders. Without PATHS, the library is scanned. The scan covers all parts of
    a cassette, including text that is split across events, and all bytes of other files. Gzip files
    are decompressed. The scan also finds the values of environment variables that contain
    secrets, such as API keys.

    A finding shows the first characters and the length of a secret, never the whole secret.

    \b
    Examples:
      llm-proxy scan
      llm-proxy scan tests/cassettes recordings.har
      llm-proxy scan --staged
      llm-proxy scan --format sarif > secrets.sarif

    Exit code: 0 if no secret is found, 1 if a secret is found, 2 if a file cannot be read.
    """
    known = redaction.environment_secret_spellings(os.environ)
    secret_scan = SecretScan(rules, rules.finder(redaction.operator_secrets(known)))
    result = ScanResult()
    for name, read in _sources(paths, cassettes, staged=staged):
        result.file_count += 1
        try:
            file_scan = secret_scan.scan_file(name, read())
        except CassetteError as error:
            result.errors.append(error)
            continue
        result.findings += file_scan.findings
        result.errors += filter(None, [file_scan.error])
        result.older += [name] if file_scan.has_older_rules else []
    match "json" if as_json else output_format:
        case "json":
            print_json(_scan_document(result))
        case "sarif":
            print_json(sarif_document(result.findings, result.errors))
        case _:
            print_lines(map(finding_line, result.findings))
            print_lines(StyledText(f"unreadable: {error}", "bad") for error in result.errors)
            for note in _notes(result, is_library=not (paths or staged)):
                print_note(note)
    fails = result.findings or (fails_if_older and result.older)
    raise click.exceptions.Exit(2 if result.errors else 1 if fails else 0)


def _sources(
    paths: Sequence[Path], cassettes: Path, *, staged: bool
) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """The name of each file, and a function that reads it.  Raises `UsageError`."""
    for path in paths:
        if not staged and not (path.is_file() or path.is_dir()):
            raise UsageError(f"no such file or folder: {display.path_as_unicode_text(path)}")
    if staged:
        for file in staged_files(paths):
            yield file.path, partial(read_staged_file, file)
        return
    library_folder = checked_library_folder(cassettes)
    folders = paths or ([library_folder] if library_folder.exists() else [])
    for path in paths_with_progress(list(files_below(folders))):
        yield str(path), partial(read_scanned_file, path)


def finding_line(finding: SecretFinding) -> str:
    """A finding as one line, without the secret."""
    place = f" at {finding.place}" if finding.place else ""
    return display.escape_line(
        f"{display.path_as_unicode_text(finding.file)}:{finding.line}: {finding.rule}: "
        f"{finding.secret_start}… ({finding.secret_chars} characters){place}"
    )


def _notes(result: ScanResult, *, is_library: bool) -> Iterator[str]:
    """The summary for people; `is_library`: whether the library was scanned, and nothing else."""
    scanned = f"{display.count_with_noun(result.file_count, 'file')} scanned"
    if result.findings:
        files = {finding.file for finding in result.findings}
        cassettes = [finding.file for finding in result.findings if finding.place]
        found = display.count_with_noun(len(result.findings), "secret")
        yield f"{scanned}, {found} found in {display.count_with_noun(len(files), 'file')}"
        if cassettes:
            path = (
                display.shell_quoted_path(cassettes[0]) if len(set(cassettes)) == 1 else "PATH..."
            )
            command = "llm-proxy scrub --write" + ("" if is_library else f" {path}")
            yield f"to remove secrets from cassettes, run {command}"
        yield "revoke each secret that other people may have seen"
    else:
        yield f"{scanned}, no secrets found"
    if result.older:
        yield older_rules_message(len(result.older))


def _scan_document(result: ScanResult) -> dict[str, Any]:
    return {
        "ok": not result.findings and not result.errors,
        "scanned": result.file_count,
        "findings": [
            {
                "file": display.path_as_unicode_text(finding.file),
                "line": finding.line,
                "place": finding.place,
                "rule": finding.rule,
                "start": finding.secret_start,
                "characters": finding.secret_chars,
            }
            for finding in result.findings
        ],
        "older_rules": list(map(display.path_as_unicode_text, result.older)),
        "unreadable": [cassette_error_document(error) for error in result.errors],
    }
