"""`schema`: prints the JSON Schema of our files, for editors and other programs."""

from __future__ import annotations

import click

from llm_proxy.cli.options import ChoiceType
from llm_proxy.cli.output import print_json
from llm_proxy.scenario.documents.document import scenario_schema


@click.command
@click.argument("what", default="scenario", type=ChoiceType(["scenario", "llm-test"]))
def schema(what: str) -> None:
    r"""Print the JSON Schema of scenario files or test definitions.

    Editors can use the schema to validate and autocomplete scenario files, and the definitions of
    tests that a model runs (llm-test). The schema only allows field names in snake_case, but
    llm-proxy also accepts camelCase in these files.

    \b
    Examples:
      llm-proxy schema > scenarios/scenario.schema.json
      llm-proxy schema llm-test > tests/llm/llm-test.schema.json
      llm-proxy schema scenario | jq '."$defs".ScenarioTurn.properties | keys'

    Start each scenario file with this line:

    \b
      # yaml-language-server: $schema=scenario.schema.json
    """
    if what == "scenario":
        print_json(scenario_schema())
        return
    from llm_pytest.models import definition_schema  # noqa: PLC0415 # only for this schema

    print_json(definition_schema())
