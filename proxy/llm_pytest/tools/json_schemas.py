"""Checks values against JSON Schemas, without network access and within limits.

Patterns run with RE2, because `re` takes exponential time for some of them; `$ref` leads to the
schema itself only.

Source: JSON Schema 2020-12, and the drafts that `$schema` names.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from llm_proxy.errors import printable_excerpt
from llm_proxy.expressions import compile_pattern
from llm_proxy.turns import Json
from llm_pytest.plugin_base import ToolError
from llm_pytest.tools.json_values import comparison_key, shown_value

_FORMATS: Final = (
    "date", "date-time", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uri-reference",
    "uuid",
)  # fmt: skip
"""What is checked.  Not all that jsonschema checks: some need large packages."""
MAX_SHOWN_ERRORS: Final = 5
_DEFAULT_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_MAX_VALUE_BYTES: Final = 1_000_000
_MAX_FORMATTED_CHARS: Final = 2000
_TIME_LIMIT_S: Final = 10.0
_MAX_SHOWN_CHARS: Final = 200

_Keyword = Callable[[Any, Any, Any, Any], Any]
"""Takes validator, value of the keyword, instance and schema; yields errors."""


def schema_errors(schema: dict[str, Json] | bool, value: Json) -> list[dict[str, Json]]:
    """The errors of a value, at most `MAX_SHOWN_ERRORS`: path, keyword, expected and actual value.

    Raises `ToolError` for an invalid or unsupported schema, and for a check that takes too long.
    """
    try:
        import jsonschema  # noqa: PLC0415 # an extra
        from referencing import Registry, exceptions  # noqa: PLC0415 # as above

        format_checker = jsonschema.FormatChecker(_FORMATS)
    except (ImportError, KeyError):  # a format whose checker is not installed
        raise ToolError(
            "jsonschema is not installed; run: pip install 'llm-proxy-replay[llm-tests]'"
        ) from None
    if len(msgspec.json.encode(value)) > _MAX_VALUE_BYTES:
        raise ToolError("the value is larger than 1 MB; set path to a part of it")
    meta_schema = (
        schema.get("$schema", _DEFAULT_DRAFT) if isinstance(schema, dict) else _DEFAULT_DRAFT
    )
    validators: Any = jsonschema.validators  # its type stubs are narrower than its documentation
    draft = None
    with suppress(ValueError):  # not a URL
        draft = validators.validator_for({"$schema": str(meta_schema)}, default=None)
    if draft is None:
        shown = printable_excerpt(str(meta_schema), _MAX_SHOWN_CHARS)
        raise ToolError(f"the schema's $schema {shown} is unknown; use {_DEFAULT_DRAFT}")
    try:
        draft.check_schema(schema, format_checker=None)  # it would check patterns with `re`
        _check_supported(schema)
        keywords = _limited_keywords(draft.VALIDATORS, time.monotonic() + _TIME_LIMIT_S)
        validator = validators.extend(draft, keywords)(
            schema,
            registry=Registry(),  # without it, a `$ref` would be fetched
            format_checker=format_checker,
        )
        found = itertools.islice(validator.iter_errors(value), MAX_SHOWN_ERRORS)
        return [_shown_error(error) for error in found]
    except jsonschema.SchemaError as error:
        raise ToolError(f"the schema is not valid at {error.json_path}") from None
    except exceptions.Unresolvable as error:
        reference = printable_excerpt(str(error.ref), _MAX_SHOWN_CHARS)
        raise ToolError(
            f"cannot resolve the reference {reference}; a $ref leads to the schema itself, such as "
            "#/$defs/NAME"
        ) from None
    except RecursionError:
        raise ToolError("the schema is nested too deeply, or a $ref leads to itself") from None


def _shown_error(error: Any) -> dict[str, Json]:
    """An error in values only: the library's sentences differ between its versions."""
    is_false = error.validator is None  # of the schema `false`
    return {
        "path": error.json_path,
        "keyword": error.validator if not is_false else "false",
        "expected": False if is_false else shown_value(error.validator_value),
        "actual": shown_value(error.instance),
    }


def _check_supported(schema: Json) -> None:
    """Raises `ToolError` for keywords whose patterns would run with `re`."""
    names = {name for value in _nested_values(schema) if isinstance(value, dict) for name in value}
    if {"patternProperties", "unevaluatedProperties"} <= names:
        raise ToolError(
            "patternProperties together with unevaluatedProperties is not supported; use "
            "additionalProperties"
        )


def _nested_values(value: Json) -> Iterator[Json]:
    yield value
    match value:
        case dict():
            for member in value.values():
                yield from _nested_values(member)
        case list():
            for item in value:
                yield from _nested_values(item)
        case _:
            pass


def _limited_keywords(keywords: Mapping[str, _Keyword], deadline_s: float) -> dict[str, _Keyword]:
    """The keywords of a draft, with those replaced that may take very long."""
    replaced = {name: keyword for name, keyword in _REPLACED.items() if name in keywords}
    return {
        name: _until(deadline_s, keyword) for name, keyword in ({**keywords, **replaced}).items()
    }


def _until(deadline_s: float, keyword: _Keyword) -> _Keyword:
    """The keyword; it raises `ToolError` after the deadline."""

    @functools.wraps(keyword)
    def check(*args: Any) -> Any:
        if time.monotonic() > deadline_s:
            raise ToolError(
                f"the check takes longer than {_TIME_LIMIT_S:g} s; set path to a part of the "
                "value, or use a smaller schema"
            )
        return keyword(*args)

    return check


def _matches(pattern: str, text: str) -> bool:
    try:
        compiled = compile_pattern(pattern)
    except ValueError as error:
        shown = printable_excerpt(pattern, _MAX_SHOWN_CHARS)
        raise ToolError(f"the schema's pattern {shown} {error}") from None
    return compiled.search(text.encode("utf-8", "replace")) is not None


def _pattern(validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[Any]:
    if validator.is_type(instance, "string") and not _matches(pattern, instance):
        yield _error("pattern")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: Any, _schema: Any
) -> Iterator[Any]:
    if validator.is_type(instance, "object"):
        for pattern, subschema in patterns.items():
            for name, member in instance.items():
                if _matches(pattern, name):
                    yield from validator.descend(member, subschema, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any, subschema: Any, instance: Any, schema: Any
) -> Iterator[Any]:
    if validator.is_type(instance, "object"):
        for name, member in instance.items():
            if name not in schema.get("properties", {}) and not any(
                _matches(pattern, name) for pattern in schema.get("patternProperties", {})
            ):
                if subschema is False:  # `descend` would not say which member
                    yield _error("additionalProperties", instance=member, path=[name])
                else:
                    yield from validator.descend(member, subschema, path=name)


def _unique_items(validator: Any, is_required: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    if (
        is_required
        and validator.is_type(instance, "array")
        and len({comparison_key(item) for item in instance}) < len(instance)
    ):
        yield _error("uniqueItems")


def _format(validator: Any, name: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    if validator.format_checker is None or not validator.is_type(instance, "string"):
        return
    if len(instance) > _MAX_FORMATTED_CHARS or not validator.format_checker.conforms(
        instance, name
    ):
        yield _error("format")


def _error(keyword: str, **details: Any) -> Any:
    from jsonschema import ValidationError  # noqa: PLC0415 # an extra

    return ValidationError(keyword, **details)


_REPLACED: Final[Mapping[str, _Keyword]] = {
    "pattern": _pattern,
    "format": _format,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
}
