"""The JSON Schema of scenario files, generated from the structs."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llm_proxy.scenario.documents.document import Scenario, ScenarioDocument

SCHEMA_URI: Final = "https://json-schema.org/draft/2020-12/schema"
_REF_TEMPLATE: Final = "#/$defs/{name}"
_SCHEMA_FIELD_DESCRIPTION: Final = "Where the JSON Schema of this file is, for editors."


def scenario_schema() -> dict[str, Any]:
    """The schema of a file: a scenario, a list of them, or an object of scenarios and a mock.

    It has only the canonical names; loading accepts camelCase too.
    """
    (scenario_ref, document_ref), definitions = msgspec.json.schema_components(
        (Scenario, ScenarioDocument), ref_template=_REF_TEMPLATE
    )
    for name in ("Scenario", "ScenarioDocument"):
        definitions[name]["properties"]["$schema"] = {
            "type": "string",
            "description": _SCHEMA_FIELD_DESCRIPTION,
        }
    return {
        "$schema": SCHEMA_URI,
        "title": "llm-proxy scenarios",
        "description": "Scripted conversations that llm-proxy answers with.",
        "anyOf": [scenario_ref, {"type": "array", "items": scenario_ref}, document_ref],
        "$defs": dict(sorted(definitions.items())),
    }
