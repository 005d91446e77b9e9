"""Checks values against JSON Schemas, without network access.

Source: JSON Schema 2020-12, and the drafts that `$schema` names.
"""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any, Final

from llm_proxy.errors import printable_excerpt
from llm_proxy.turns import Json
from llm_pytest.plugin_base import ToolError
from llm_pytest.tools.json_values import shown_value

_FORMATS: Final = (
    "date", "date-time", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uri-reference",
    "uuid",
)  # fmt: skip
"""What is checked.  Not all that jsonschema checks: some need large packages."""
MAX_SHOWN_ERRORS: Final = 5
_DEFAULT_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_MAX_SHOWN_CHARS: Final = 200


def schema_errors(schema: dict[str, Json] | bool, value: Json) -> list[dict[str, Json]]:
    """The errors of a value, at most `MAX_SHOWN_ERRORS`: path, keyword, expected and actual value.

    Raises `ToolError` for an invalid schema.
    """
    try:
        import jsonschema  # noqa: PLC0415 # an extra
        from referencing import Registry, exceptions  # noqa: PLC0415 # as above

        format_checker = jsonschema.FormatChecker(_FORMATS)
    except (ImportError, KeyError):  # a format whose checker is not installed
        raise ToolError(
            "jsonschema is not installed; run: pip install 'llm-proxy-replay[llm-tests]'"
        ) from None
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
        draft.check_schema(schema)
        # Without a registry, a `$ref` would be fetched.
        validator = draft(schema, registry=Registry(), format_checker=format_checker)
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
    actual = error.instance
    if error.validator == "additionalProperties" and error.validator_value is False:
        actual = sorted(actual.keys() - error.schema.get("properties", {}).keys())
    return {
        "path": error.json_path,
        "keyword": "false" if is_false else error.validator,
        "expected": False if is_false else shown_value(error.validator_value),
        "actual": shown_value(actual),
    }
