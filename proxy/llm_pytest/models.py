"""What a test definition says, and what a run of it results in: frozen values.

Source: owner's document 003, "Verdict Format"; the fields of a definition are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta, Struct

from llm_proxy.scenario.documents.document import REF_TEMPLATE, SCHEMA_URI

VerdictName = Literal["PASS", "FAIL", "UNCLEAR"]
StepStatus = Literal["pass", "fail", "skip"]

DEFAULT_TIMEOUT_S = 300.0
DEFAULT_MAX_TURNS = 50

_NonEmpty = Annotated[str, Meta(min_length=1)]
_Name = Annotated[str, Meta(min_length=1, max_length=200)]
Texts = tuple[_NonEmpty, ...]
VariableValue = str | int | float | bool


class TestStep(Struct, frozen=True, forbid_unknown_fields=True):
    """One step: what the model does, and what must be true afterwards."""

    __test__: ClassVar[bool] = False  # pytest collects classes by this prefix

    name: Annotated[
        _Name, Meta(description="A short name, shown in reports. Each step has a different name.")
    ]
    do: Annotated[_NonEmpty, Meta(description="What the model does.")]
    expect: Annotated[
        _NonEmpty | Texts,
        Meta(description="What must be true afterwards: a text or a list of texts."),
    ] = ()

    @property
    def expectations(self) -> tuple[str, ...]:
        """The expectations, one by one."""
        return (self.expect,) if isinstance(self.expect, str) else self.expect


class TestSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """A test definition."""

    __test__: ClassVar[bool] = False

    name: Annotated[_Name, Meta(description="The name of the test, in one line.")]
    steps: Annotated[
        tuple[TestStep, ...],
        Meta(min_length=1, description="The steps, in the order in which the model runs them."),
    ]
    description: Annotated[
        str, Meta(description="What the test is about. The model reads the description.")
    ] = ""
    tags: Annotated[Texts, Meta(description="pytest markers, for pytest -m.")] = ()
    timeout: Annotated[
        float, Meta(gt=0, le=86_400, description="The time limit of the test in seconds.")
    ] = DEFAULT_TIMEOUT_S
    max_turns: Annotated[
        int, Meta(ge=1, le=10_000, description="The maximum number of responses of the model.")
    ] = DEFAULT_MAX_TURNS
    provider: Annotated[str, Meta(description="The provider, such as claude-code or openai.")] = ""
    model: Annotated[str, Meta(description="The model. The default depends on the provider.")] = ""
    variables: Annotated[
        Mapping[str, VariableValue],
        Meta(description="Values by name, for {{ name }} in the texts of the definition."),
    ] = {}
    allowed_hosts: Annotated[
        Texts, Meta(description="Hosts that the http_* tools can reach besides this machine.")
    ] = ()
    setup: Annotated[
        Texts, Meta(description="What the model does before the steps: a list of texts.")
    ] = ()
    teardown: Annotated[
        Texts,
        Meta(description="What the model does at the end, even if a step failed: a list of texts."),
    ] = ()


def definition_schema() -> dict[str, Any]:
    """The JSON Schema of a test definition.

    It has only the canonical names; loading accepts camelCase too.
    """
    schema = msgspec.json.schema(TestSpec, ref_template=REF_TEMPLATE)
    schema["$defs"]["TestSpec"]["properties"]["$schema"] = {
        "type": "string",
        "description": "The path or URL of this JSON Schema, for validation in editors.",
    }
    return {
        "$schema": SCHEMA_URI,
        "title": "LLM test",
        "description": "A test that a model runs.",
        **schema,
    }


class StepResult(Struct, frozen=True):
    """How one step ended, as the model reports it."""

    name: str
    status: StepStatus
    details: str = ""


class Verdict(Struct, frozen=True):
    """The result of a test.  Source: owner's document 003, "Verdict Format"."""

    verdict: VerdictName
    reason: str = ""
    """A brief explanation."""
    steps: tuple[StepResult, ...] = ()
    issues: tuple[str, ...] = ()
    """The problems that were found."""


class RunUsage(Struct, frozen=True):
    """What a run has used, as the responses report it."""

    turns: int = 0
    """The number of responses."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    """None where nobody reports it."""
