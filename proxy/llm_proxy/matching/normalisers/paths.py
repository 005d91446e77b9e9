r"""`paths`: replaces the client's working, temporary and home folders.

Three kinds of folder get a name of ours, each the same wherever it stands: the working folder, as
clients announce it (`<cwd>/srv/app</cwd>`, `Working directory: /srv/app`); a temporary folder of a
run (`/tmp/tmpa1b2c3d4`); somebody's home (`/home/ann`, `/Users/ann`, `/root`, `C:\Users\ann`, and
what holds a `.config`, `.cache`, `.local`, `.claude` or `.codex`).
Nothing but the request is looked at: keys are made again where the home is another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from llm_proxy.matching import value_finder
from llm_proxy.matching.document import KeyDocument
from llm_proxy.matching.normalisers.definition import NormaliserKind
from llm_proxy.matching.normalisers.mapping import AliasTable, map_body_texts
from llm_proxy.matching.rules import Apply, NormalizedDocument

_ROOT: Final = r"(?:/|[A-Za-z]:[\\/])"
_WORKING: Final = re.compile(
    rf"<cwd>\s?({_ROOT}[^`'\"<>,;\r\n]{{1,999}})"
    r"|(?:\b[Ww]orking (?:directory|folder)|\bcwd)(?: is)?: ?"
    rf"(?:[`'\"]({_ROOT}[^`'\"<>,;\r\n]{{1,999}})"
    rf"|({_ROOT}[^`'\"<>,;()\r\n]{{1,999}})(?=\n ?-? ?Is (?:a|directory a) git repo)"
    rf"|({_ROOT}[^`'\"<>,;()\s]{{1,999}}))"
)
"""Up to what ends it: a tag, a quote, a comma, or the line of which the next one says whether it is
a repository; where nothing encloses it, a space, for what stands behind that may be what somebody
asks."""
_LETTER: Final = r"[0-9A-Za-z\u00c0-\u024f_]"
"""Of scripts that put spaces between words: in others a folder's name would go on as a sentence."""
_NAME: Final = rf"{_LETTER}(?:[.@+-]*{_LETTER})*"
"""A folder's own name, as far as it can be told within a text."""
_BEFORE: Final = value_finder.NO_PATH_BEFORE
_TEMPORARY: Final = re.compile(
    _BEFORE + r"(?:/private)?"
    r"(?:/var/folders/\w{1,9}/\w{1,99}/T"
    r"|/tmp/pytest-of-[\w-]{1,99}/pytest-[0-9]{1,9}"
    rf"|/tmp/{_NAME}(?=/)"
    r"|/tmp/tmp\.?\w{6,99}(?![\w.-]))"
)
_HOME: Final = re.compile(
    _BEFORE + rf"(?:/home/{_NAME}|/Users/{_NAME}|/root(?![\w.-])"
    rf"|[A-Za-z]:(?:\\{{1,9}}|/)Users(?:\\{{1,9}}|/){_NAME})"
)
_IN_HOME: Final = re.compile(r"[\\/]\.(?:claude|codex|config|cache|local)(?![\w.-])")
"""What stands in any home, wherever that is."""
_QUOTED: Final = re.compile(rf"[`'\"]({_ROOT}(?:[^`'\"\r\n \t]|[ ](?!/))*)\Z")
"""A path in quotes, which may have spaces in it; one that goes on with another path is none."""
_ENDS: Final = re.compile(r"[\s`'\"<>|?*,;()=]")
"""What a path that is not quoted ends or begins behind."""
_OURS: Final = re.compile(r"-[0-9]+>[^`'\"\s]*\Z")
"""A path that begins with a name of ours."""
_ABSOLUTE: Final = re.compile(_ROOT + r"[^\r\n]")
_LONGEST: Final = 300
"""Characters of a home of which only that is known."""
_SEPARATORS: Final = re.compile(r"\\{2,}")
_SLUG: Final = re.compile("[^A-Za-z0-9]")
_MANY: Final = 100
"""Folders of a document that are named; each costs a search."""


@dataclass(slots=True)
class _FoundFolders:
    """The folders of a document, in the order of their finding."""

    working: dict[str, None] = field(default_factory=dict)
    temporary: dict[str, None] = field(default_factory=dict)
    homes: dict[str, None] = field(default_factory=dict)

    def collect_from(self, text: str) -> str:
        """Look for folders in a text, which stays as it is."""
        for match in _WORKING.finditer(text):
            folder = _single_separators(
                match[match.lastindex or 0].partition(" (")[0].rstrip()
            ).rstrip("/\\.")
            if value_finder.is_folder_path(folder):  # a root is everywhere
                self.working[folder] = None
        for match in _TEMPORARY.finditer(text):
            self.temporary[match[0]] = None
        for match in _HOME.finditer(text):
            self.homes[_single_separators(match[0])] = None
        for match in islice(_IN_HOME.finditer(text), _MANY):
            self._collect_home_before(text[max(0, match.start() - _LONGEST) : match.start()])
        return text

    def _collect_home_before(self, text: str) -> None:
        quoted = _QUOTED.search(text)
        begun = _ENDS.split(text)[-1] if quoted is None else quoted[1]
        if _ABSOLUTE.match(begun) and not _OURS.search(text):
            self.homes[_single_separators(begun).rstrip("\\/")] = None

    def by_length(self) -> dict[str, str]:
        """All of them, longest first, each with the word for what it is."""
        slugs = [
            slug
            for text in self.working
            if value_finder.is_long_enough(slug := _SLUG.sub("-", text))
        ]
        kinds: dict[str, str] = {}
        for word, folders in (
            ("cwd", self.working), ("cwd-slug", slugs), ("folder", self.temporary),
            ("home", self.homes),
        ):  # fmt: skip
            for folder in list(folders)[:_MANY]:
                kinds.setdefault(folder, word)
        return dict(sorted(kinds.items(), key=lambda values: len(values[0]), reverse=True))


def _single_separators(folder: str) -> str:
    r"""A folder with single separators: within JSON that is a text, `\` is doubled."""
    return _SEPARATORS.sub(r"\\", folder)


def _make_rule(_argument: str) -> Apply:
    return _apply_rule


def _apply_rule(document: KeyDocument) -> NormalizedDocument:
    found = _FoundFolders()
    map_body_texts(document, found.collect_from)
    kinds = found.by_length()
    if not kinds:
        return NormalizedDocument(document)
    spelled = {spelling: kind for kind in kinds for spelling in _spellings_of_folder(kind)}
    names = {word: AliasTable(word) for word in kinds.values()}
    standing = value_finder.ValueFinder(spelled)

    def name(spelling: str) -> str:
        """Given when it is first met: what stands nowhere by itself has none."""
        folder = spelled[spelling]
        return names[kinds[folder]].alias_of(folder)

    done = map_body_texts(document, lambda text: standing.replace_all(text, name))
    fields = {name: content for some in names.values() for name, content in some.aliases().items()}
    return NormalizedDocument(done, fields)


def _spellings_of_folder(folder: str) -> tuple[str, ...]:
    return (folder, folder.replace("\\", "\\\\")) if "\\" in folder else (folder,)


PATHS: Final = NormaliserKind(
    name="paths",
    version=1,
    ignores="which home, working and temporary folders",
    make_rule_of=_make_rule,
)
