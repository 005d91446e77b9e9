r"""`paths`: replaces the client's working, temporary and home folders.

Three kinds of folder get an alias, the same wherever they occur: the working folder, as clients
announce it (`<cwd>/srv/app</cwd>`, `Working directory: /srv/app`); a temporary folder of a run
(`/tmp/tmpa1b2c3d4`); a home folder (`/home/ann`, `/Users/ann`, `/root`, `C:\Users\ann`, and any
folder with a `.config`, `.cache`, `.local`, `.claude` or `.codex` in it).
Only the request is examined, never this machine: keys are recomputed on machines with other homes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from llm_proxy.matching import value_finder
from llm_proxy.matching.key_documents import KeyDocument
from llm_proxy.matching.normalisers.mapping import AliasTable, map_body_texts
from llm_proxy.matching.rules import NormaliserDefinition, NormalizedDocument

_ROOT: Final = r"(?:/|[A-Za-z]:[\\/])"
_WORKING_FOLDER: Final = re.compile(
    rf"<cwd>\s?({_ROOT}[^`'\"<>,;\r\n]{{1,999}})"
    r"|(?:\b[Ww]orking (?:directory|folder)|\bcwd)(?: is)?: ?"
    rf"(?:[`'\"]({_ROOT}[^`'\"<>,;\r\n]{{1,999}})"
    rf"|({_ROOT}[^`'\"<>,;()\r\n]{{1,999}})(?=\n ?-? ?Is (?:a|directory a) git repo)"
    rf"|({_ROOT}[^`'\"<>,;()\s]{{1,999}}))"
)
"""The working folder up to its end: a tag, a quote, a comma, or the line end if the next line
states whether it is a repository; unquoted, up to a space, because user text may follow."""
_LETTER: Final = r"[0-9A-Za-z\u00c0-\u024f_]"
"""Letters of scripts with spaces between words: in others a name would run on into the sentence."""
_NAME: Final = rf"{_LETTER}(?:[.@+-]*{_LETTER})*"
"""The name of a folder, as far as it can be recognised within a text."""
_BEFORE: Final = value_finder.NO_PATH_BEFORE
_TEMPORARY_FOLDER: Final = re.compile(
    _BEFORE + r"(?:/private)?"
    r"(?:/var/folders/\w{1,9}/\w{1,99}/T"
    r"|/tmp/pytest-of-[\w-]{1,99}/pytest-[0-9]{1,9}"
    rf"|/tmp/{_NAME}(?=/)"
    r"|/tmp/tmp\.?\w{6,99}(?![\w.-]))"
)
_HOME_FOLDER: Final = re.compile(
    _BEFORE + rf"(?:/home/{_NAME}|/Users/{_NAME}|/root(?![\w.-])"
    rf"|[A-Za-z]:(?:\\{{1,9}}|/)Users(?:\\{{1,9}}|/){_NAME})"
)
_HOME_SUBFOLDER: Final = re.compile(r"[\\/]\.(?:claude|codex|config|cache|local)(?![\w.-])")
"""A folder that occurs in home folders only."""
_QUOTED_PATH: Final = re.compile(rf"[`'\"]({_ROOT}(?:[^`'\"\r\n \t]|[ ](?!/))*)\Z")
"""A path in quotes, which may contain spaces, but not one followed by another path."""
_PATH_DELIMITER: Final = re.compile(r"[\s`'\"<>|?*,;()=]")
"""Characters around an unquoted path."""
_ALIASED_PATH: Final = re.compile(r"-[0-9]+>[^`'\"\s]*\Z")
"""A path that begins with an alias."""
_ABSOLUTE_PATH: Final = re.compile(_ROOT + r"[^\r\n]")
_MAX_HOME_CHARS: Final = 300
"""The longest home that is recognised by the folder in it."""
_REPEATED_BACKSLASH: Final = re.compile(r"\\{2,}")
_NON_ALPHANUMERIC: Final = re.compile("[^A-Za-z0-9]")
_MAX_FOLDERS: Final = 100
"""The most folders of each kind that get an alias; each costs a search."""


@dataclass(slots=True)
class _FoundFolders:
    """The folders found in a document, in the order of occurrence (dicts as ordered sets)."""

    working_folders: dict[str, None] = field(default_factory=dict)
    temporary_folders: dict[str, None] = field(default_factory=dict)
    home_folders: dict[str, None] = field(default_factory=dict)

    def collect_from(self, text: str) -> str:
        """Collect the folders in a text; returns it unchanged, to be used as a mapping."""
        for match in _WORKING_FOLDER.finditer(text):
            folder = _collapse_backslashes(
                match[match.lastindex or 0].partition(" (")[0].rstrip()
            ).rstrip("/\\.")
            if value_finder.looks_like_path(folder):  # not a root: that is part of every path
                self.working_folders[folder] = None
        for match in _TEMPORARY_FOLDER.finditer(text):
            self.temporary_folders[match[0]] = None
        for match in _HOME_FOLDER.finditer(text):
            self.home_folders[_collapse_backslashes(match[0])] = None
        for match in islice(_HOME_SUBFOLDER.finditer(text), _MAX_FOLDERS):
            before = text[max(0, match.start() - _MAX_HOME_CHARS) : match.start()]
            quoted = _QUOTED_PATH.search(before)
            candidate = _PATH_DELIMITER.split(before)[-1] if quoted is None else quoted[1]
            if _ABSOLUTE_PATH.match(candidate) and not _ALIASED_PATH.search(before):
                self.home_folders[_collapse_backslashes(candidate).rstrip("\\/")] = None
        return text

    def kind_by_folder(self) -> dict[str, str]:
        """The kind of every folder, by its path; longest first."""
        slugs = [
            slug
            for text in self.working_folders
            if value_finder.is_distinctive(slug := _NON_ALPHANUMERIC.sub("-", text))
        ]
        kinds: dict[str, str] = {}
        for label, folders in (
            ("cwd", self.working_folders), ("cwd-slug", slugs), ("folder", self.temporary_folders),
            ("home", self.home_folders),
        ):  # fmt: skip
            for folder in list(folders)[:_MAX_FOLDERS]:
                kinds.setdefault(folder, label)
        return dict(sorted(kinds.items(), key=lambda values: len(values[0]), reverse=True))


def _collapse_backslashes(folder: str) -> str:
    r"""A folder with single backslashes: JSON within a text doubles them."""
    return _REPEATED_BACKSLASH.sub(r"\\", folder)


def _replace_folders(document: KeyDocument) -> NormalizedDocument:
    found = _FoundFolders()
    map_body_texts(document, found.collect_from)
    kind_by_folder = found.kind_by_folder()
    if not kind_by_folder:
        return NormalizedDocument(document)
    # JSON within a text doubles backslashes.
    folder_by_spelling = {
        spelling: folder
        for folder in kind_by_folder
        for spelling in (folder, folder.replace("\\", "\\\\"))
    }
    alias_tables = {kind: AliasTable(kind) for kind in kind_by_folder.values()}
    finder = value_finder.ValueFinder(folder_by_spelling)

    def alias_for(spelling: str) -> str:
        """The alias is assigned on first use: a folder that occurs only within others has none."""
        folder = folder_by_spelling[spelling]
        return alias_tables[kind_by_folder[folder]].alias_of(folder)

    document = map_body_texts(document, lambda text: finder.replace_all(text, alias_for))
    value_by_alias: dict[str, str] = {}
    for aliases in alias_tables.values():
        value_by_alias |= aliases.value_by_alias()
    return NormalizedDocument(document, value_by_alias)


PATHS: Final = NormaliserDefinition("paths", 1, lambda _argument: _replace_folders)
