r"""`paths`: where a client works does not count, but what lies below.

Three kinds of folder get a name of ours, each the same wherever it stands: the working folder, as
clients announce it (`<cwd>/srv/app</cwd>`, `Working directory: /srv/app`); a temporary folder of a
run (`/tmp/tmpa1b2c3d4`); somebody's home (`/home/ann`, `/Users/ann`, `/root`, `C:\Users\ann`).
Nothing but the request is looked at: keys are made again where the home is another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final

from llm_proxy.matching import values
from llm_proxy.matching.document import Document
from llm_proxy.matching.normalisers.kind import Kind
from llm_proxy.matching.normalisers.walking import Names, texts_changed
from llm_proxy.matching.rules import Apply, Normalised

_ROOT: Final = r"(?:/|[A-Za-z]:[\\/])"
_WORKING: Final = re.compile(
    rf"(?:<cwd>\s?|(?:\b[Ww]orking (?:directory|folder)|\bcwd)(?: is)?: ?)[`'\"]?"
    rf"({_ROOT}[^`'\"<>,;\r\n]{{1,999}})"
)
"""Up to what ends it: a quote, a comma, the line."""
_NAME: Final = r"[^\s/\\\"'`<>:|?*,;()]+"
"""A folder's own name, as far as it can be told within a text."""
_BEFORE: Final = r"(?<![\w.~-])"
_TEMPORARY: Final = re.compile(
    _BEFORE + r"(?:/private)?"
    r"(?:/var/folders/\w{1,9}/\w{1,99}/T"
    r"|/tmp/pytest-of-[\w-]{1,99}/pytest-[0-9]{1,9}"
    rf"|/tmp/{_NAME}(?=/)"
    r"|/tmp/tmp\.?\w{6,99}(?![\w.-]))"
)
_HOME: Final = re.compile(
    _BEFORE + rf"(?:/home/{_NAME}|/Users/{_NAME}|/root(?![\w.-])|[A-Za-z]:(?:\\+|/)Users(?:\\+|/){_NAME})"
)
_SEPARATORS: Final = re.compile(r"\\{2,}")
_SLUG: Final = re.compile("[^A-Za-z0-9]")
_MANY: Final = 100
"""Folders of a document that are named; each costs a search."""


@dataclass(slots=True)
class _Found:
    """The folders of a document, in the order of their finding."""

    working: dict[str, None] = field(default_factory=dict)
    temporary: dict[str, None] = field(default_factory=dict)
    homes: dict[str, None] = field(default_factory=dict)

    def look(self, text: str) -> str:
        """Look for folders in a text, which stays as it is."""
        for it in _WORKING.finditer(text):
            folder = _plain(it[1].partition(" (")[0].rstrip())
            self.working[folder.rstrip("/\\") or folder] = None
        for it in _TEMPORARY.finditer(text):
            self.temporary[it[0]] = None
        for it in _HOME.finditer(text):
            self.homes[_plain(it[0]).rstrip(".")] = None
        return text

    def named(self) -> dict[str, str]:
        """All of them, longest first, with their names."""
        kinds = (("cwd", self.working), ("folder", self.temporary), ("home", self.homes))
        named: dict[str, str] = {}
        for word, folders in kinds:
            names = Names(word)
            for folder in list(folders)[:_MANY]:
                if folder not in named:
                    named[folder] = names.of(folder)
        slugs = Names("cwd-slug")
        for folder in list(self.working)[:_MANY]:
            if len(slug := _SLUG.sub("-", folder)) >= _SHORTEST_SLUG:
                named.setdefault(slug, slugs.of(slug))
        return dict(sorted(named.items(), key=lambda it: len(it[0]), reverse=True))


_SHORTEST_SLUG: Final = 6
"""Characters of a path that is spelled as the name of a file."""


def _plain(folder: str) -> str:
    r"""A folder with single separators: within JSON that is a text, `\` is doubled."""
    return _SEPARATORS.sub(r"\\", folder)


def _make(_argument: str) -> Apply:
    return _apply


def _apply(document: Document) -> Normalised:
    found = _Found()
    texts_changed(document.body, found.look)
    named = found.named()
    if not named:
        return Normalised(document)
    spelled = {spelling: name for it, name in named.items() for spelling in _spellings(it)}
    pattern = re.compile("|".join(map(_pattern, spelled)))
    body = texts_changed(
        document.body, lambda text: pattern.sub(lambda found: spelled[found[0]], text)
    )
    return Normalised(replace(document, body=body), {name: it for it, name in named.items()})


def _pattern(folder: str) -> str:
    if values.is_path(folder):
        return values.pattern(folder)
    return rf"(?<![\w-]){re.escape(folder)}(?!\w)"


def _spellings(folder: str) -> tuple[str, ...]:
    r"""A folder as it is, and as JSON within a text spells it."""
    return (folder, folder.replace("\\", "\\\\")) if "\\" in folder else (folder,)


PATHS: Final = Kind(
    name="paths", version=1, overlooks="which home, working and temporary folders", make=_make
)
