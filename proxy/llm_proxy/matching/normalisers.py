"""Normalisers that keys can apply: white space, times, ids, folders, patterns, JSON paths.

A normaliser takes a document and returns it without the differences that it ignores.  A value with
an identity, such as an id, is replaced by an alias numbered by position: the same id has the same
alias everywhere, so two requests that use different ids in the same way become equal.

Values that identify a request are left unchanged: the name of the model, large base64, binary
bodies, the hash of a form's part.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from llm_proxy.errors import JsonPathTooManySteps, UsageError, printable_excerpt
from llm_proxy.expressions import compile_expression
from llm_proxy.matching import value_finder
from llm_proxy.matching.keys import ApplyRule, KeyDocument, NormaliserDefinition, NormalizedDocument
from llm_proxy.message_texts import is_id_member
from llm_proxy.turns import Json

if TYPE_CHECKING:
    from llm_proxy.json_paths import StepCountingPath

_MAX_SHOWN_CHARS: Final = 100
"""The most characters of an argument that an error message quotes."""
_MODEL_FIELD: Final = "model"
"""The member or form field with the model's name, in every dialect that has it in the body."""
_FORM_TEXT_FIELDS: Final = ("value", "filename")
"""The entries of a form field that hold text."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""Stands for a byte that is not UTF-8."""
_LARGE_BASE64: Final = re.compile(
    r"(?<![A-Za-z0-9+/_-])"  # only at the start of a run, or long runs would take quadratic time
    r"(?:data:[\w.+-]{1,80}/[\w.+-]{1,80}(?:;[\w=.+-]{1,80}){0,4};base64,)?"
    r"([A-Za-z0-9+/_-]{256,})={0,2}"
)
_HASH_TEXT: Final = re.compile(r"base64 of \d+ bytes, sha256 [0-9a-f]{16}")

ChangeValue = Callable[[Json, str], Json]
"""Maps a scalar value and the name of the member that contains it to a new value."""


class AliasTable:
    """Aliases for values that differ from run to run, numbered in the order of occurrence."""

    def __init__(self, label: str) -> None:
        """`label` names the aliases: `uuid` makes `<uuid-1>`, `<uuid-2>`."""
        self._label = label
        self._alias_by_value: dict[str, str] = {}

    def alias_of(self, value: str) -> str:
        """The alias of a value, the same for the same value."""
        return self._alias_by_value.setdefault(
            value, f"<{self._label}-{len(self._alias_by_value) + 1}>"
        )

    def value_by_alias(self) -> dict[str, str]:
        """The values by their aliases."""
        return {name: value for value, name in self._alias_by_value.items()}


def map_texts(value: Json, change: Callable[[str], str]) -> Json:
    """A JSON value with every text in it mapped, in a canonical order.

    Members of objects are visited in the order of their names, whatever their order was.  Names of
    members stay.
    """
    return map_values(value, text_change(change), "")


def map_body_texts(document: KeyDocument, change: Callable[[str], str]) -> KeyDocument:
    """The document with every text of its body mapped, in the order of `map_texts`."""
    return map_body_values(document, text_change(change))


def map_body_values(document: KeyDocument, change: ChangeValue) -> KeyDocument:
    """The document with every scalar value of its body mapped."""
    body = document.body
    match document.body_kind, body:
        case "json", dict():
            body = {
                name: item if name == _MODEL_FIELD else map_values(item, change, name)
                for name, item in sorted(body.items())
            }
        case "form", list():
            body = [_map_form_field(field, change) for field in body]
        case "text", str() if _SURROGATE.search(body):
            pass  # binary
        case _:
            body = map_values(body, change, "")
    return replace(document, body=body)


def is_large_base64(text: str) -> bool:
    """Whether a text is nothing but large base64, or a data URL of it."""
    match = _LARGE_BASE64.fullmatch(text)
    return match is not None and _has_all_character_kinds(match[1])


def replace_large_base64(text: str) -> str:
    """The text with large base64 replaced by its size and hash."""
    return _LARGE_BASE64.sub(_replace_with_hash, text)


def contains_base64_hash(text: str) -> bool:
    """Whether `replace_large_base64` has replaced a part of a text."""
    return _HASH_TEXT.search(text) is not None


def _replace_with_hash(run: re.Match[str]) -> str:
    if not _has_all_character_kinds(run[1]):
        return run[0]
    digest = hashlib.sha256(run[0].encode()).hexdigest()[:16]
    return f"base64 of {len(run[1]) * 3 // 4} bytes, sha256 {digest}"


def _has_all_character_kinds(run: str) -> bool:
    """Base64 of that length contains characters of each of these kinds."""
    return all(re.search(kind, run) for kind in ("[A-Z]", "[a-z]", "[0-9]"))


def text_change(change: Callable[[str], str]) -> ChangeValue:
    """A change of texts; other values stay."""
    return lambda value, _: change(value) if isinstance(value, str) else value


def _map_form_field(field: Json, change: ChangeValue) -> Json:
    if not isinstance(field, dict) or (name := str(field.get("name", ""))) == _MODEL_FIELD:
        return field
    return field | {part: change(field[part], name) for part in _FORM_TEXT_FIELDS if part in field}


def map_values(value: Json, change: ChangeValue, name: str) -> Json:
    """A JSON value, which is that of a member `name`, with every scalar value in it mapped."""
    match value:
        case list():
            return [map_values(item, change, name) for item in value]
        case dict():
            return {text: map_values(value[text], change, text) for text in sorted(value)}
        case str() if is_large_base64(value):
            return value
        case _:
            return change(value, name)


def _normaliser(name: str, version: int, normalize_document: ApplyRule) -> NormaliserDefinition:
    """A normaliser without an argument."""
    return NormaliserDefinition(name, version, lambda _argument: normalize_document)


WHITESPACE: Final = _normaliser(
    "whitespace",
    1,
    lambda document: NormalizedDocument(
        map_body_texts(document, lambda text: " ".join(text.split()))
    ),
)
"""Collapses runs of white space."""


_UUID: Final = re.compile(
    r"(?<![0-9A-Za-z])[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"
    r"(?![0-9A-Za-z])"
)


def _normalize_uuids(document: KeyDocument) -> NormalizedDocument:
    aliases = AliasTable("uuid")
    document = map_body_texts(
        document, lambda text: _UUID.sub(lambda found: aliases.alias_of(found[0]), text)
    )
    return NormalizedDocument(document, aliases.value_by_alias())


UUIDS: Final = _normaliser("uuids", 1, _normalize_uuids)
"""Replaces UUIDs by positional aliases."""


# Dates and times.  The patterns are linear in the length of the text: every part has a maximum
# length, and each begins at the start of a word or number, so a text is read once.  Only the years
# 2015 to 2045 match, those of a current clock: historical dates are content.

_TIME_MARK: Final = "<time>"
"""Replaces every date and time."""

_YEAR: Final = "20(?:1[5-9]|[23][0-9]|4[0-5])"
_MONTH: Final = "(?:0[1-9]|1[0-2])"
_DAY: Final = "(?:0[1-9]|[12][0-9]|3[01])"
_SHORT_MONTH: Final = "(?:0?[1-9]|1[0-2])"
_SHORT_DAY: Final = "(?:0?[1-9]|[12][0-9]|3[01])"
_NAMED: Final = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_WEEKDAY: Final = (
    r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\.?,?[ ]{1,2})?"
)
_SPACE: Final = "[ \u00a0\u202f]"

_HOUR: Final = "(?:[01][0-9]|2[0-3])"
_SIXTY: Final = "[0-5][0-9]"
_FRACTION: Final = "(?:[.,][0-9]{1,9})?"
_HALF: Final = rf"(?:{_SPACE}?[ap](?:m|\.m\.))?"
_ZONE: Final = (
    r"(?:z|[ ]?(?:(?:utc|gmt)?[+-][0-9]{2}:?[0-9]{2}"
    r"|utc|gmt|w?e[sd]?t|ces?t|ees?t|bst|ist|jst|[cmp][sd]t)"
    r"(?:[ ]\([a-z ]{1,40}\))?)?"
)
_CLOCK: Final = f"{_HOUR}:{_SIXTY}:(?:{_SIXTY}|60){_FRACTION}{_HALF}{_ZONE}"
_HALF_CLOCK: Final = (
    rf"(?:0?[1-9]|1[0-2]):{_SIXTY}:{_SIXTY}{_FRACTION}{_SPACE}?[ap](?:m|\.m\.){_ZONE}"
)
"""With seconds: times that people write, such as 3:05 PM, have none, and stay."""
_BEHIND_A_DATE: Final = (
    rf"(?:(?:t|:|,?{_SPACE}{{1,2}}(?:at[ ])?)(?:[01]?[0-9]|2[0-3]):{_SIXTY}"
    rf"(?::{_SIXTY}{_FRACTION})?{_HALF}{_ZONE})?"
)

_STAMP: Final = (
    rf"{_YEAR}-{_MONTH}-{_DAY}[t_ -]{_HOUR}[:.-]{_SIXTY}[:.-]{_SIXTY}{_FRACTION}{_ZONE}"
    rf"|{_YEAR}{_MONTH}{_DAY}[t_-]{_HOUR}{_SIXTY}{_SIXTY}{_FRACTION}{_ZONE}"
)
"""A date and a time in one word, perhaps at the end of a name: run-20261122T130509Z."""
_ORDINAL: Final = "(?:st|nd|rd|th)?"
_DATE: Final = (
    f"{_WEEKDAY}(?:"
    f"{_YEAR}-{_MONTH}-{_DAY}"
    f"|{_YEAR}/{_SHORT_MONTH}/{_SHORT_DAY}"
    f"|{_SHORT_MONTH}/{_SHORT_DAY}/{_YEAR}"
    f"|{_SHORT_DAY}/{_SHORT_MONTH}/{_YEAR}"
    f"|{_SHORT_DAY}{_ORDINAL}(?:[ /-]|[ ]of[ ]){_NAMED}(?:,?[ ]|[-/]){_YEAR}"
    f"|{_NAMED}[ ]{{1,2}}{_SHORT_DAY}{_ORDINAL},?[ ]{{1,2}}{_YEAR}"
    f"){_BEHIND_A_DATE}"
    f"|{_WEEKDAY}{_NAMED}[ ]{{1,2}}{_SHORT_DAY}[ ]{_HOUR}:{_SIXTY}"
    f"(?::{_SIXTY}{_HALF}(?:{_ZONE}[ ]{_YEAR}{_ZONE})?)?"
)
_JOINTS: Final = "[-./:+]"
_FREE_BEFORE: Final = rf"(?<![0-9A-Za-z])(?<![0-9]{_JOINTS})(?<!{_TIME_MARK}{_JOINTS})(?<!::)"
_FREE_BEHIND: Final = rf"(?![0-9A-Za-z])(?!{_JOINTS}(?:[0-9]|{_TIME_MARK}))"
"""Not part of a longer word or number.  `_TIME_MARK` counts as a number, so that masking twice
gives the same result as masking once."""
_NO_SNAPSHOT: Final = rf"(?<![0-9A-Za-z][-_])(?<!{_TIME_MARK}_)"
"""Not after a name: gpt-4o-2024-08-06 is a model."""

_FIRST_LETTER: Final = "(?=[0-9adfjmnostw])"
"""The characters that a match may begin with: a quick test for most positions."""

_TIME: Final = re.compile(
    rf"{_FIRST_LETTER}{_FREE_BEFORE}(?:{_STAMP}|{_CLOCK}|{_HALF_CLOCK}|{_NO_SNAPSHOT}(?:{_DATE})){_FREE_BEHIND}",
    re.IGNORECASE | re.ASCII,
)
"""A date, a time, or both."""

_DIGITS: Final = r"[12][0-9]{9}(?:[0-9]{3}){0,3}(?:\.[0-9]{1,9})?"
_EPOCH: Final = re.compile(
    r"(?<![A-Za-z0-9_-])([A-Za-z][A-Za-z0-9_-]{0,60})"
    r"""(\\{0,8}["']?[ ]{0,2}[:=>][ ]{0,2}\\{0,8}["']?)"""
    rf"({_DIGITS})(?![0-9A-Za-z]|\.[0-9])"
)
"""A name, a separator, and a number that may be s, ms, µs or ns since 1970:
`created=1795353909`, `"created": 1795353909`."""
_EPOCH_NUMBER: Final = re.compile(_DIGITS)

_TIME_HINT: Final = re.compile("20[1-4][0-9]|:[0-5][0-9]")
"""Every date and time in a text contains this; nearly all texts lack it."""
_LONG_NUMBER: Final = re.compile("[12][0-9]{9}")
_NAME_WORD: Final = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_TIME_WORDS: Final = frozenset(
    ("created", "updated", "modified", "started", "ended", "finished", "expires", "timestamp",
     "timestamps", "ts", "time", "date", "datetime", "epoch", "now", "mtime", "ctime", "atime")
)  # fmt: skip
_MIN_EPOCH_S: Final = 1_420_070_400
_END_EPOCH_S: Final = 2_398_377_600
"""Seconds since 1970: the beginnings of 2015 and 2046."""
_UNITS_PER_SECOND: Final = (1, 1_000, 1_000_000, 1_000_000_000)


def mask_time(value: Json, name: str) -> Json:
    """A value with its dates and times masked; a number only if `name` is that of a time."""
    match value:
        case str() if not _EPOCH_NUMBER.fullmatch(value):
            return _mask_text(value)
        case str() | int() | float() if not isinstance(value, bool):
            return _TIME_MARK if _is_named_epoch_time(name, float(value)) else value
        case _:
            return value


def _mask_text(text: str) -> str:
    if _TIME_HINT.search(text) is not None:
        lines = text.split("\n")  # no match spans a line end
        text = "\n".join(
            _TIME.sub(_TIME_MARK, line) if _TIME_HINT.search(line) else line for line in lines
        )
    if _LONG_NUMBER.search(text) is not None:
        text = _EPOCH.sub(
            lambda found: (
                found[1] + found[2] + _TIME_MARK
                if _is_named_epoch_time(found[1], float(found[3]))
                else found[0]
            ),
            text,
        )
    return text


def _is_named_epoch_time(name: str, number: float) -> bool:
    """Whether a number may be a time from 2015 to 2045, in s, ms, µs or ns since 1970.

    Its name must be that of a time: `created_at`, `expiresAt`, `ts`.
    """
    if not any(is_current_time(number, unit) for unit in _UNITS_PER_SECOND):
        return False
    words = [word.lower() for word in _NAME_WORD.findall(name)]
    return bool(words) and (words[-1] == "at" or not _TIME_WORDS.isdisjoint(words))


def is_current_time(number: float, units_per_second: int = 1) -> bool:
    """Whether a number is a time from 2015 to 2045, in some unit since 1970."""
    return _MIN_EPOCH_S * units_per_second <= number < _END_EPOCH_S * units_per_second


TIMESTAMPS: Final = _normaliser(
    "timestamps", 1, lambda document: NormalizedDocument(map_body_values(document, mask_time))
)
"""Replaces dates and times by one placeholder.

Relations between times do not count either: two that are equal in one run may be a second apart
in the next.  So all of them become the same placeholder, however they are written.
"""


_ALIAS: Final = re.compile(r"<[a-z-]+-[0-9]+>")
"""An alias that another rule has set."""
_ID_WORD: Final = re.compile(r"(?<![\w-])\w[\w-]{6,}\w")
"""A word of a text that may be an id."""


def texts_at_path(value: Json, path: str) -> Iterator[str]:
    """The texts at a path of members, in order; `name[*]` stands for each item of a list."""
    name, _, rest = path.removeprefix("$.").partition(".")
    inner = value.get(name.removesuffix("[*]")) if isinstance(value, dict) else None
    items = inner if isinstance(inner, list) else []
    for item in items if name.endswith("[*]") else [inner]:
        if rest:
            yield from texts_at_path(item, rest)
        elif isinstance(item, str):
            yield item


def _normalize_call_ids(document: KeyDocument) -> NormalizedDocument:
    if document.body_kind != "json":
        return NormalizedDocument(document)
    aliases = AliasTable("id")
    alias_by_id = {
        id_: aliases.alias_of(id_)
        for path in document.dialect.id_json_paths
        for id_ in texts_at_path(document.body, path)
        if id_ and not _ALIAS.fullmatch(id_)
    }
    if not alias_by_id:
        return NormalizedDocument(document)
    body = _replace_ids(document.body, alias_by_id, _text_replacer(alias_by_id))
    return NormalizedDocument(replace(document, body=body), aliases.value_by_alias())


def _replace_ids(
    value: Json, alias_by_id: Mapping[str, str], replace_in_text: Callable[[str], str]
) -> Json:
    match value:
        case str():
            return value if is_large_base64(value) else replace_in_text(value)
        case list():
            return [_replace_ids(item, alias_by_id, replace_in_text) for item in value]
        case dict():
            return {
                name: alias_by_id[item]
                if isinstance(item, str) and item in alias_by_id and is_id_member(name)
                else _replace_ids(item, alias_by_id, replace_in_text)
                for name, item in value.items()
            }
        case _:
            return value


def _text_replacer(alias_by_id: Mapping[str, str]) -> Callable[[str], str]:
    long_ids = {id_: name for id_, name in alias_by_id.items() if value_finder.is_distinctive(id_)}
    non_word_ids = sorted(
        (content for content in long_ids if not _ID_WORD.fullmatch(content)), key=len, reverse=True
    )
    finder = value_finder.ValueFinder(non_word_ids)

    def replace_in_text(text: str) -> str:
        if not long_ids:
            return text
        if non_word_ids:
            text = finder.replace_all(text, long_ids.__getitem__)
        return _ID_WORD.sub(lambda found: long_ids.get(found[0], found[0]), text)

    return replace_in_text


CALL_IDS: Final = _normaliser("call-ids", 1, _normalize_call_ids)
"""Replaces ids of calls and messages by positional aliases.

The dialect lists the paths of ids.  An id found there is replaced wherever it occurs again: within
texts if it is distinctive (`is_distinctive`), or else as the whole value of a member named like an
id.
"""


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


def _collapse_backslashes(folder: str) -> str:
    r"""A folder with single backslashes: JSON within a text doubles them."""
    return _REPEATED_BACKSLASH.sub(r"\\", folder)


def _kind_by_folder(document: KeyDocument) -> dict[str, str]:
    """The kind of every folder in a document, by its path; longest first."""
    # In the order of occurrence: dicts as ordered sets.
    working_folders: dict[str, None] = {}
    temporary_folders: dict[str, None] = {}
    home_folders: dict[str, None] = {}

    def collect_folders(text: str) -> str:
        for match in _WORKING_FOLDER.finditer(text):
            folder = _collapse_backslashes(
                match[match.lastindex or 0].partition(" (")[0].rstrip()
            ).rstrip("/\\.")
            if value_finder.looks_like_path(folder):  # not a root: that is part of every path
                working_folders[folder] = None
        for match in _TEMPORARY_FOLDER.finditer(text):
            temporary_folders[match[0]] = None
        for match in _HOME_FOLDER.finditer(text):
            home_folders[_collapse_backslashes(match[0])] = None
        for match in islice(_HOME_SUBFOLDER.finditer(text), _MAX_FOLDERS):
            before = text[max(0, match.start() - _MAX_HOME_CHARS) : match.start()]
            quoted = _QUOTED_PATH.search(before)
            candidate = _PATH_DELIMITER.split(before)[-1] if quoted is None else quoted[1]
            folder = _collapse_backslashes(candidate).rstrip("/\\.")
            if _ABSOLUTE_PATH.match(folder) and not _ALIASED_PATH.search(before):
                home_folders[folder] = None
        return text

    map_body_texts(document, collect_folders)
    slugs = [
        slug
        for text in working_folders
        if value_finder.is_distinctive(slug := _NON_ALPHANUMERIC.sub("-", text))
    ]
    kinds: dict[str, str] = {}
    for label, folders in (
        ("cwd", working_folders), ("cwd-slug", slugs), ("folder", temporary_folders),
        ("home", home_folders),
    ):  # fmt: skip
        for folder in list(folders)[:_MAX_FOLDERS]:
            kinds.setdefault(folder, label)
    return dict(sorted(kinds.items(), key=lambda values: len(values[0]), reverse=True))


def _replace_folders(document: KeyDocument) -> NormalizedDocument:
    kind_by_folder = _kind_by_folder(document)
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


PATHS: Final = _normaliser("paths", 1, _replace_folders)
r"""Replaces the client's working, temporary and home folders.

Three kinds of folder get an alias, the same wherever they occur: the working folder, as clients
announce it (`<cwd>/srv/app</cwd>`, `Working directory: /srv/app`); a temporary folder of a run
(`/tmp/tmpa1b2c3d4`); a home folder (`/home/ann`, `/Users/ann`, `/root`, `C:\Users\ann`, and any
folder with a `.config`, `.cache`, `.local`, `.claude` or `.codex` in it).
Only the request is examined, never this machine: keys are recomputed on machines with other homes.
"""


_MAX_READ_BYTES: Final = 200_000_000
"""Bytes that may be read for one document; matches beyond that are kept.  The slowest pattern that
was found takes 0.3 s for them, and a usual one reads far fewer bytes than are counted."""
_FAST_INSTRUCTIONS: Final = 20
"""Up to this many instructions, RE2's speed is constant; a larger pattern may take
proportionally longer."""


def _make_regex_normaliser(argument: str) -> ApplyRule:
    pattern = compile_expression(argument)
    placeholder = f"<regex-{hashlib.sha256(argument.encode()).hexdigest()[:6]}>".encode()
    cost_factor = max(1, pattern.programsize // _FAST_INSTRUCTIONS)

    def apply(document: KeyDocument) -> NormalizedDocument:
        remaining_bytes = _MAX_READ_BYTES

        def replace_matches(text: str) -> str:
            nonlocal remaining_bytes
            data = text.encode()
            # A text with the placeholder was changed before: the pattern may match the result.
            if placeholder in data or remaining_bytes <= 0:
                return text
            kept: list[bytes] = []
            copied_until = 0
            for match in pattern.finditer(data):
                if remaining_bytes <= 0:
                    break
                # As much may have been read to find it.
                remaining_bytes -= len(data) * cost_factor
                if match.end() > match.start():
                    kept += (data[copied_until : match.start()], placeholder)
                    copied_until = match.end()
            return b"".join((*kept, data[copied_until:])).decode()

        return NormalizedDocument(map_body_texts(document, replace_matches))

    return apply


REGEX: Final = NormaliserDefinition(
    "regex",
    1,
    _make_regex_normaliser,
    argument_description="a pattern",
    example_argument="build-[0-9]+",
)
"""Replaces every match of a pattern by one placeholder.

The patterns are RE2's, which reads a text at most once per match, whatever the pattern and the
text; and the number of bytes read for one document is limited.  So no request can block the proxy.
The limit is in bytes and not in time, so that a key is the same on every machine.
"""


_WHOLE_BODY_PATHS: Final = frozenset(("$.*", "$[*]"))
_MAX_STEPS: Final = 500_000
"""Values that may be visited for one document; matches beyond that are kept."""
_ITEM_PLACEHOLDER: Final = "<ignored>"
"""Replaces a removed item of a list."""
_NOTHING_REMOVED: Final[RemovalTree] = {}
"""Removes nothing."""


RemovalTree: TypeAlias = dict[str | int, "RemovalTree | None"]
"""The values to remove, by member or index: None removes the whole value."""


def add_ignored_path(removals: RemovalTree, path_steps: tuple[str | int, ...]) -> None:
    """Add the value at a path, given as members and indexes, to those to remove."""
    *parent_steps, last = path_steps
    for step in parent_steps:
        inner = removals.setdefault(step, {})
        if inner is None:  # removed as a whole already
            return
        removals = inner
    removals[last] = None


def without_ignored(removals: RemovalTree, document: KeyDocument) -> NormalizedDocument:
    """A document without the values of its body to remove; unchanged parts are shared."""
    return NormalizedDocument(replace(document, body=_without_removed(document.body, removals)))


def _without_removed(value: Json, removals: RemovalTree) -> Json:
    if not removals:
        return value
    match value:
        case dict():
            return {
                name: _without_removed(item, inner)
                for name, item in value.items()
                if (inner := removals.get(name, _NOTHING_REMOVED)) is not None
            }
        case list():
            return [
                _ITEM_PLACEHOLDER
                if (inner := removals.get(place, _NOTHING_REMOVED)) is None
                else _without_removed(item, inner)
                for place, item in enumerate(value)
            ]
        case _:
            return value


def _make_ignore_normaliser(argument: str) -> ApplyRule:
    from llm_proxy import json_paths  # noqa: PLC0415 # 0.03 s, only where a rule has a path

    path = _parse_path(argument)

    def apply(document: KeyDocument) -> NormalizedDocument:
        if document.body_kind != "json" or not isinstance(document.body, dict | list):
            return NormalizedDocument(document)
        removals: RemovalTree = {}
        budget = json_paths.StepBudget(_MAX_STEPS)
        with suppress(JsonPathTooManySteps):
            for match in json_paths.find_nodes(path, document.body, budget):
                add_ignored_path(removals, match.location)
        return without_ignored(removals, document)

    return apply


def _parse_path(argument: str) -> StepCountingPath:
    from jsonpath_rfc9535.segments import JSONPathRecursiveDescentSegment  # noqa: PLC0415 # 0.03 s, only where a rule has one

    from llm_proxy import json_paths  # noqa: PLC0415 # as above

    shown = printable_excerpt(argument, _MAX_SHOWN_CHARS)
    if not argument.startswith("$"):
        raise UsageError(
            f"ignore={shown}: the JSONPath must start with $, such as $.metadata.trace"
        )
    try:
        path = json_paths.compile_path(argument)
    except ValueError as error:
        raise UsageError(f"ignore={shown} is not a valid JSONPath (RFC 9535): {error}") from None
    if not path.segments or argument.strip() in _WHOLE_BODY_PATHS:
        raise UsageError(f"ignore={shown} selects the whole body; use a longer path")
    if any(isinstance(segment, JSONPathRecursiveDescentSegment) for segment in path.segments):
        raise UsageError(
            f"ignore={shown}: '..' is not supported; write the full path, and use [*] to select "
            "all items of a list"
        )
    return path


IGNORE: Final = NormaliserDefinition(
    "ignore",
    1,
    _make_ignore_normaliser,
    argument_description="a JSONPath",
    example_argument="$.metadata.trace",
)
"""Removes the values at a path of a JSON body.

A member is removed with its name.  An item of a list is replaced by a placeholder, so that later
indexes stay valid: the rules `$.messages[0]` and `$.messages[1]` can be combined.

A path with `..` is refused: it would reach every member with a name, including a property of a
tool's schema that happens to have it.
"""


NORMALISERS: Final[Mapping[str, NormaliserDefinition]] = {
    definition.name: definition
    for definition in (WHITESPACE, TIMESTAMPS, UUIDS, CALL_IDS, PATHS, REGEX, IGNORE)
}
"""All normalisers by name, in the order of the documentation."""
