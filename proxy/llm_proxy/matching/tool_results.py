"""Masks what differs in each run of a test in which a model calls tools: ports, ids, times.

A tool really runs in each replay, and its result is in the next request.  Only values of a named
shape are ignored in it, so a result with another status, number or text is another request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final

from llm_proxy.matching.keys import KeyDocument, NormaliserRule, NormalizedDocument
from llm_proxy.matching.normalisers import (
    AliasTable,
    ChangeValue,
    is_current_time,
    map_body_values,
    map_values,
    mask_time,
)
from llm_proxy.turns import Json

_STEP: Final = re.compile(r"\.(\w+)(?:\[(?:\*|(\w+)=([\w*-]+))\])?")
"""A step of a path: a member, perhaps its items, perhaps only those with a value."""


def map_tool_results(document: KeyDocument, change: ChangeValue) -> KeyDocument:
    """The document with every scalar value in the results of the client's tools mapped."""
    if document.body_kind != "json":
        return document
    body = document.body
    for path in document.dialect.tool_result_json_paths:
        body = _map_at_path(body, _STEP.findall(path), change)
    return replace(document, body=body)


def _map_at_path(value: Json, steps: list[tuple[str, str, str]], change: ChangeValue) -> Json:
    (name, member, pattern), *rest = steps
    if not isinstance(value, dict) or name not in value:
        return value
    inner = value[name]
    if not rest:
        return {**value, name: map_values(inner, change, name)}
    if isinstance(inner, list):
        changed: Json = [
            _map_at_path(item, rest, change) if _has_value(item, member, pattern) else item
            for item in inner
        ]
    else:
        changed = _map_at_path(inner, rest, change)
    return {**value, name: changed}


def _has_value(item: Json, member: str, pattern: str) -> bool:
    if not member:
        return True
    return isinstance(item, dict) and fnmatchcase(str(item.get(member)), pattern)


# The patterns are linear in the length of the text: every part has a maximum length.

_MIN_PORT: Final = 1024
"""Lower ports are those of services, and count."""
_MAX_PORT: Final = 65_535
_PORT: Final = r"([1-9][0-9]{3,4})(?![0-9A-Za-z_]|\.[0-9])"
_LOOPBACK_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]", "0.0.0.0")  # noqa: S104 # found in texts, never bound
_HOST_PORT: Final = re.compile(
    rf"(?:(?<![\w.-])|(?<=%2[Ff]))((?:{'|'.join(map(re.escape, _LOOPBACK_HOSTS))})"
    rf"(?::|%3[Aa]|['\"], | port )){_PORT}"
)
"""A loopback host and its port, also in an encoded URL and in the messages of Python and curl."""
_NAMED_PORT: Final = re.compile(
    rf"""(?<![\w-])(port(?:\\{{0,8}}["'])?[ ]{{0,2}}[:=][ ]{{0,2}}(?:\\{{0,8}}["'])?){_PORT}"""
)
"""A member with a port in JSON within a text: `"port": 43121`, `port=43121`."""
_PORT_MEMBER: Final = "port"

_HEX: Final = "[0-9A-Fa-f]"
_ID: Final = re.compile(
    rf"(?<![0-9A-Za-z])(?:({_HEX}{{8}}-{_HEX}{{4}}-[1467]{_HEX}{{3}}-[89ABab]{_HEX}{{3}}-{_HEX}{{12}})"
    rf"|({_HEX}{{12}}[47]{_HEX}{{3}}[89ABab]{_HEX}{{15}})"
    rf"|({_HEX}{{24}})"
    r"|([0-7](?:[0-9A-HJKMNP-TV-Z]{25}|[0-9a-hjkmnp-tv-z]{25})))(?![0-9A-Za-z])"
)
"""A UUID of a version that is not computed from content, with and without hyphens; an ObjectId; a
ULID.  Without hyphens only UUIDs of the usual versions: a digest could have any digits."""
_ULID_DIGITS: Final = str.maketrans("abcdefghjkmnpqrstvwxyz", "abcdefghijklmnopqrstuv")
"""From the digits of a ULID to those of `int(text, 32)`."""
_MS_PER_S: Final = 1_000
_WORD_BEFORE: Final = re.compile(r"\w{1,64}\Z")

_DURATION_MEMBERS: Final = frozenset(("elapsed_ms", "duration_ms"))
_NUMBER: Final = r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:[Ee][+-]?[0-9]{1,3})?"
_DURATION: Final = re.compile(
    rf"(?<![\w-])((?:{'|'.join(sorted(_DURATION_MEMBERS))})"
    r"""\\{0,8}["']?[ ]{0,2}[:=][ ]{0,2})"""
    rf"{_NUMBER}(?![0-9A-Za-z.])"
)
_DURATION_MARK: Final = "<duration>"


class _Aliases:
    """The aliases of one document, with the texts in which a response can contain the values."""

    def __init__(self) -> None:
        self._tables: dict[str, AliasTable] = {}
        self._values_in_context: dict[str, str] = {}

    def alias_of(self, label: str, value: str, text: str, begin: int) -> str:
        """The alias of a value that begins at an offset of a text."""
        alias = self._tables.setdefault(label, AliasTable(label)).alias_of(value)
        # An id is only found in a response as a word: here its word begins before it.
        if (word := _WORD_BEFORE.search(text, max(0, begin - 64), begin)) is not None:
            self._values_in_context[word[0] + alias] = word[0] + value
        return alias

    def port_alias_of(self, before: str, port: str) -> str:
        """The alias of a port after a text.

        The model may use the port with each loopback host, and in a member of its arguments.
        """
        alias = self._tables.setdefault("port", AliasTable("port")).alias_of(port)
        hosts = (f"{host}:" for host in _LOOPBACK_HOSTS)
        for context in (before, f'"{_PORT_MEMBER}":', *hosts):
            self._values_in_context[context + alias] = context + port
        return alias

    def value_by_alias(self) -> dict[str, str]:
        """The values by alias, and by text with an alias in it."""
        values = dict(self._values_in_context)
        for table in self._tables.values():
            values |= table.value_by_alias()
        return values


def _is_port(text: str) -> bool:
    has_digits_only = text.isascii() and text.isdecimal() and len(text) <= len(str(_MAX_PORT))
    return has_digits_only and _MIN_PORT <= int(text) <= _MAX_PORT


def _ids(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    """The generated ids of a text, each with its kind."""
    for match in _ID.finditer(text):
        if kind := _kind_of_id(match):
            yield kind, match


def _kind_of_id(match: re.Match[str]) -> str:
    """The kind of an id; empty if a time that it contains is not one of these years."""
    text = match[0].replace("-", "")
    match match.lastindex:
        case 1 | 2:
            is_id = text[12] != "7" or is_current_time(int(text[:12], 16), _MS_PER_S)
            kind = "run-uuid"
        case 3:
            # A text of decimal digits only is a number.
            is_id = is_current_time(int(text[:8], 16)) and not text.isdecimal()
            kind = "object-id"
        case _:
            number = int(text[:10].lower().translate(_ULID_DIGITS), 32)
            is_id = is_current_time(number, _MS_PER_S)
            kind = "ulid"
    return kind if is_id else ""


def _alias_ports_and_ids(document: KeyDocument) -> NormalizedDocument:
    """Replace the values that have an identity by aliases, wherever they occur."""
    ports: set[str] = set()
    ids: set[str] = set()

    def collect_from_result(value: Json, name: str) -> Json:
        match value:
            case str():
                ports.update(match[2] for match in _NAMED_PORT.finditer(value))
                ids.update(match[0] for _, match in _ids(value))
            case _:
                pass
        if name == _PORT_MEMBER:
            ports.add(str(value))
        return value

    def collect_from_body(value: Json, _: str) -> Json:
        if isinstance(value, str):
            ports.update(match[2] for match in _HOST_PORT.finditer(value))
            ids.update(match[0] for _, match in _ids(value) if match.lastindex == 1)
        return value

    map_tool_results(document, collect_from_result)
    map_body_values(document, collect_from_body)
    ports = {port for port in ports if _is_port(port)}
    if not ports and not ids:
        return NormalizedDocument(document)
    aliases = _Aliases()

    def replace_port(match: re.Match[str]) -> str:
        if match[2] not in ports:
            return match[0]
        return match[1] + aliases.port_alias_of(match[1], match[2])

    def replace_values(value: Json, name: str) -> Json:
        match value:
            case str() if name == _PORT_MEMBER and value in ports:
                return aliases.port_alias_of("", value)
            case str():
                value = _NAMED_PORT.sub(replace_port, _HOST_PORT.sub(replace_port, value))
                return _replace_ids(value, ids, aliases)
            case int() if name == _PORT_MEMBER and str(value) in ports:
                return aliases.port_alias_of("", str(value))
            case _:
                return value

    return NormalizedDocument(map_body_values(document, replace_values), aliases.value_by_alias())


def _replace_ids(text: str, ids: set[str], aliases: _Aliases) -> str:
    pieces: list[str] = []
    offset = 0
    for kind, match in _ids(text):
        if match[0] in ids:
            alias = aliases.alias_of(kind, match[0], text, match.start())
            pieces += [text[offset : match.start()], alias]
            offset = match.end()
    return "".join([*pieces, text[offset:]])


def _mask_times_in_results(document: KeyDocument) -> NormalizedDocument:
    """Replace dates, times and durations in tool results by placeholders."""

    def mask(value: Json, name: str) -> Json:
        match value:
            case int() | float() if name in _DURATION_MEMBERS and not isinstance(value, bool):
                return _DURATION_MARK
            case str():
                return mask_time(_DURATION.sub(rf"\1{_DURATION_MARK}", value), name)
            case _:
                return mask_time(value, name)

    return NormalizedDocument(map_tool_results(document, mask))


def stable_text(text: str) -> str:
    """A text of a tool result without times, durations, ports and generated ids."""
    text = _NAMED_PORT.sub(r"\1<port>", _HOST_PORT.sub(r"\1<port>", text))
    text = _ID.sub(lambda match: _kind_of_id(match) or match[0], text)
    return str(mask_time(_DURATION.sub(rf"\1{_DURATION_MARK}", text), ""))


RUN_VALUES_RULE: Final = NormaliserRule("run-values", 1, _alias_ports_and_ids)
"""Replaces loopback ports and generated ids by aliases, the same wherever a value occurs.

Which values are aliases: ports after a loopback host, and UUIDs with hyphens, anywhere in the body;
other generated ids, and members named `port`, in tool results only.
"""

RESULT_TIMES_RULE: Final = NormaliserRule("result-times", 1, _mask_times_in_results)
"""Ignores dates, times and durations, in tool results only."""
