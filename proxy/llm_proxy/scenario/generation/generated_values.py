"""Generates values for JSON Schemas: tool arguments and structured output.

The same schema and seed give the same value.  Where a schema has an example or a default, that is
taken.  Required properties are always there, others too, unless they would go on without an end
or cannot be made.  Of several ways to be valid the first is taken that works; null is the last.
Schemas come with requests, so none of them gets more than a bounded amount of work.
"""

from __future__ import annotations

from collections.abc import Mapping

from llm_proxy.errors import SchemaNotSatisfiable, printable
from llm_proxy.scenario.generation.json_schema.budget import STEPS, SchemaBudget, SchemaTooExpensive
from llm_proxy.scenario.generation.json_schema.maker import SchemaValueMaker
from llm_proxy.scenario.generation.json_schema.merging import NoValue
from llm_proxy.turns import Json


def make_value(schema: Json, seed: str, fields: Mapping[str, Json] | None = None) -> Json:
    """A value that is valid against the schema; an object where the schema says nothing.

    `given` are properties of it that are not made up: they are taken as they are, and what is
    made goes with them where it can.  Raises `SchemaNotSatisfiable`, naming the place, where there
    is no such value or the schema asks for what is not understood.
    """
    fixed = dict(fields or {})
    schema = {} if schema is None else schema
    try:
        made = (
            _complete_object(fixed, schema, seed)
            if fixed
            else _make_value(schema, schema, seed, STEPS)
        )
    except NoValue as error:
        raise SchemaNotSatisfiable(_refusal_message(error.path or "$", error.why)) from None
    except SchemaTooExpensive as error:
        raise SchemaNotSatisfiable(_refusal_message("$", str(error))) from None
    except RecursionError:
        raise SchemaNotSatisfiable(
            _refusal_message("$", "its schemas are nested too deeply")
        ) from None
    if not fixed:
        return made
    if not isinstance(made, dict):
        names = printable(", ".join(fixed), 100)
        raise SchemaNotSatisfiable(
            f"the schema asks for no object, so nothing can be given for {names}"
        )
    return made | fixed


def _refusal_message(path: str, why: str) -> str:
    return (
        f"no value can be made up at {path}: {why}; write it in the scenario, or give the schema "
        "an example"
    )


def _complete_object(fixed: dict[str, Json], schema: Json, seed: str) -> Json:
    """A value that goes with what is given, else one that is valid without it."""
    consts: dict[str, Json] = {name: {"const": value} for name, value in fixed.items()}
    wanted: Json = {"allOf": [schema, {"properties": consts, "required": list(fixed)}]}
    try:
        return _make_value(wanted, schema, seed, STEPS // 2)
    except (NoValue, SchemaTooExpensive):
        return _make_value(schema, schema, seed, STEPS // 2)


def _make_value(wanted: Json, root: Json, seed: str, steps: int) -> Json:
    return SchemaValueMaker(root, seed, SchemaBudget(steps)).made(wanted)
