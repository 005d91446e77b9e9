"""Reads the files that are scanned for secrets: those of paths, or those of the git index."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from llm_proxy.cassette.reader import MAX_FILE_BYTES
from llm_proxy.errors import CassetteError, UsageError
from llm_proxy.shell.content_decoders import InvalidContentCoding, new_decoder

_GIT_TIMEOUT_S: Final = 60.0
_SUBMODULE_MODE: Final = "160000"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file as it is in the git index."""

    path: str
    """Its path in the repository."""
    blob: str


def files_below(paths: Iterable[Path]) -> Iterator[Path]:
    """The regular files in these files and folders; no links in folders, and no `.git`.

    Raises `UsageError` for a folder that cannot be read.
    """

    def refuse(error: OSError) -> NoReturn:
        raise UsageError(f"cannot read {error.filename}: {error.strerror}")

    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for folder, folder_names, file_names in os.walk(path, onerror=refuse):
            folder_names[:] = sorted(name for name in folder_names if name != ".git")
            files = (Path(folder, name) for name in sorted(file_names))
            yield from (file for file in files if file.is_file() and not file.is_symlink())


def read_scanned_file(path: Path) -> bytes:
    """The content of a file, without gzip.  Raises `CassetteError`."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CassetteError(str(path), None, f"cannot read the file: {error.strerror}") from None
    return _checked_content(str(path), content)


def staged_files(paths: Sequence[Path]) -> list[StagedFile]:
    """The files in the git index that differ from the last commit, of `paths` if there are any.

    Raises `UsageError` without git or a repository.
    """
    _run_git("rev-parse", "--git-dir")  # its error says that there is no repository
    options = ("--cached", "--raw", "--no-abbrev", "--no-renames", "--diff-filter=ACMT", "-z")
    fields = _run_git("diff", *options, "--", *map(str, paths)).decode("utf-8", "surrogateescape")
    entries = fields.split("\0")
    return [
        StagedFile(path, blob)
        for entry, path in zip(entries[::2], entries[1::2], strict=False)
        for _, mode, _, blob, _ in (entry.split(),)
        if mode != _SUBMODULE_MODE and blob.strip("0")
    ]


def read_staged_file(staged: StagedFile) -> bytes:
    """The content of a file in the git index, without gzip.  Raises `CassetteError`."""
    return _checked_content(staged.path, _run_git("cat-file", "blob", staged.blob))


def _run_git(*arguments: str) -> bytes:
    if (git := shutil.which("git")) is None:
        raise UsageError(
            "--staged: git is not installed; install git, or scan the files without --staged"
        )
    try:
        return subprocess.run(
            [git, *arguments], capture_output=True, check=True, timeout=_GIT_TIMEOUT_S
        ).stdout
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        raise UsageError(f"--staged: git failed: {reason.removeprefix('fatal: ')}") from None
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"--staged: git {arguments[0]} took longer than {_GIT_TIMEOUT_S:.0f} s"
        ) from None


def _checked_content(path: str, content: bytes) -> bytes:
    if len(content) > MAX_FILE_BYTES:
        raise CassetteError(path, None, f"the file is larger than {MAX_FILE_BYTES:,} bytes")
    if not path.endswith(".gz") or (decoder := new_decoder("gzip")) is None:
        return content
    try:
        decoded = b"".join(decoder.decode(content))
        decoder.raise_if_truncated()
    except InvalidContentCoding as error:
        raise CassetteError(path, None, f"cannot decode the gzip data: {error}") from None
    return decoded
