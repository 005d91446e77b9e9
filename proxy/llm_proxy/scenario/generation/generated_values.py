"""Generates values for JSON Schemas: tool arguments and structured output.

The same schema and seed give the same value.  An example or a default of the schema is preferred.
Required properties are always included, optional ones unless they recurse without end or cannot be
generated.  Of several alternatives the first that works is used; null is the last.
Schemas come with requests, so the work for each is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping

from llm_proxy.errors import SchemaNotSatisfiable, printable_excerpt
from llm_proxy.scenario.generation.json_schema.budget import (
    MAX_STEPS,
    SchemaBudget,
    SchemaTooExpensive,
)
from llm_proxy.scenario.generation.json_schema.merging import NoValueFound
from llm_proxy.scenario.generation.json_schema.value_maker import SchemaValueMaker
from llm_proxy.turns import Json


def make_value(schema: Json, seed: str, fixed_fields: Mapping[str, Json] | None = None) -> Json:
    """A value that is valid against the schema; an object if the schema sets no type.

    `fixed_fields` are properties used as they are; if possible the value is valid together with
    them.  Raises `SchemaNotSatisfiable` with the path if there is no such value or if the schema
    uses unsupported keywords.
    """
    fixed_members = dict(fixed_fields or {})
    schema = {} if schema is None else schema
    try:
        value = (
            _make_with_fixed_members(fixed_members, schema, seed)
            if fixed_members
            else _make_value(schema, schema, seed, MAX_STEPS)
        )
    except NoValueFound as error:
        raise SchemaNotSatisfiable(
            _unsatisfiable_schema_message(error.path or "$", error.reason)
        ) from None
    except SchemaTooExpensive as error:
        raise SchemaNotSatisfiable(_unsatisfiable_schema_message("$", str(error))) from None
    except RecursionError:
        raise SchemaNotSatisfiable(
            _unsatisfiable_schema_message("$", "its schemas are nested too deeply")
        ) from None
    if not fixed_members:
        return value
    if not isinstance(value, dict):
        names = printable_excerpt(", ".join(fixed_members), 100)
        raise SchemaNotSatisfiable(
            f"the schema asks for no object, so nothing can be given for {names}"
        )
    return value | fixed_members


def _unsatisfiable_schema_message(path: str, reason: str) -> str:
    return (
        f"no value can be made up at {path}: {reason}; write it in the scenario, or give the "
        "schema "
        "an example"
    )


def _make_with_fixed_members(fixed_members: dict[str, Json], schema: Json, seed: str) -> Json:
    """A value that is valid with the fixed members; failing that, one that is valid alone."""
    consts: dict[str, Json] = {name: {"const": value} for name, value in fixed_members.items()}
    schema_with_fixed: Json = {
        "allOf": [schema, {"properties": consts, "required": list(fixed_members)}]
    }
    try:
        return _make_value(schema_with_fixed, schema, seed, MAX_STEPS // 2)
    except (NoValueFound, SchemaTooExpensive):
        return _make_value(schema, schema, seed, MAX_STEPS // 2)


def _make_value(schema: Json, root: Json, seed: str, steps: int) -> Json:
    return SchemaValueMaker(root, seed, SchemaBudget(steps)).make_valid_value(schema)
