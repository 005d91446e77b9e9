"""`schema`: prints the JSON Schema of our files, for editors and other programs."""

from __future__ import annotations

import click

from llm_proxy.cli.options import ChoiceType
from llm_proxy.cli.output import print_json
from llm_proxy.scenario.documents.document import scenario_schema


@click.command
@click.argument("what", default="scenario", type=ChoiceType(["scenario"]))
def schema(what: str) -> None:
    r"""Print the JSON Schema of scenario files.

    Editors can use the schema to validate and autocomplete scenario files. The schema only allows
    field names in snake_case, but llm-proxy also accepts camelCase in scenario files.

    \b
    Examples:
      llm-proxy schema > scenarios/scenario.schema.json
      llm-proxy schema scenario | jq '."$defs".ScenarioTurn.properties | keys'

    Start each scenario file with this line:

    \b
      # yaml-language-server: $schema=scenario.schema.json
    """
    print_json(scenario_schema())
