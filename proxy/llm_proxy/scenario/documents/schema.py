"""The JSON Schema of scenario files, generated from the structs."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llm_proxy.scenario.documents.document import Scenario, ScenarioDocument

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_POINTER: Final = "#/$defs/{name}"
_NOTE: Final = "Where the JSON Schema of this file is, for editors."


def scenario_schema() -> dict[str, Any]:
    """The schema of a file: a scenario, a list of them, or an object of scenarios and a mock.

    It has the canonical names alone; loading takes camelCase too.
    """
    (one, several), definitions = msgspec.json.schema_components(
        (Scenario, ScenarioDocument), ref_template=_POINTER
    )
    for name in ("Scenario", "ScenarioDocument"):
        definitions[name]["properties"]["$schema"] = {"type": "string", "description": _NOTE}
    return {
        "$schema": DIALECT,
        "title": "llm-proxy scenarios",
        "description": "Scripted conversations that llm-proxy answers with.",
        "anyOf": [one, {"type": "array", "items": one}, several],
        "$defs": dict(sorted(definitions.items())),
    }
