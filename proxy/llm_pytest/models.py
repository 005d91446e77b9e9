"""What a test definition says, and what a run of it results in: frozen values.

Source: owner's document 003, "Verdict Format"; the fields of a definition are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

VerdictName = Literal["PASS", "FAIL", "UNCLEAR"]
StepStatus = Literal["pass", "fail", "skip"]

DEFAULT_TIMEOUT_S = 300.0
DEFAULT_MAX_TURNS = 50

_NonEmpty = Annotated[str, Meta(min_length=1)]
Texts = tuple[_NonEmpty, ...]
VariableValue = str | int | float | bool


class TestStep(Struct, frozen=True, forbid_unknown_fields=True):
    """One step: what the model does, and what it must find."""

    __test__: ClassVar[bool] = False  # pytest collects classes by this prefix

    name: Annotated[str, Meta(min_length=1, description="A short name, shown in reports.")]
    do: Annotated[str, Meta(min_length=1, description="What the model does.")]
    expect: Annotated[
        str | Texts, Meta(description="What must be true afterwards: a text or a list of texts.")
    ] = ()

    @property
    def expectations(self) -> tuple[str, ...]:
        """The expectations, one by one."""
        return (self.expect,) if isinstance(self.expect, str) else self.expect


class TestSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """A test definition."""

    __test__: ClassVar[bool] = False

    name: Annotated[str, Meta(min_length=1, description="The name of the test.")]
    steps: Annotated[
        tuple[TestStep, ...], Meta(min_length=1, description="The steps, in their order.")
    ]
    description: Annotated[str, Meta(description="What the test is about.")] = ""
    tags: Annotated[Texts, Meta(description="pytest markers, for `-m`.")] = ()
    timeout: Annotated[float, Meta(gt=0, description="The time limit of the test in seconds.")] = (
        DEFAULT_TIMEOUT_S
    )
    max_turns: Annotated[int, Meta(ge=1, description="How many responses the model may need.")] = (
        DEFAULT_MAX_TURNS
    )
    provider: Annotated[str, Meta(description="The provider, such as claude-code or openai.")] = ""
    model: Annotated[str, Meta(description="The model; by default that of the provider.")] = ""
    variables: Annotated[
        Mapping[str, VariableValue],
        Meta(description="Values for `{{ name }}`; `{{ env.NAME }}` is an environment variable."),
    ] = {}
    allowed_hosts: Annotated[
        Texts,
        Meta(description="Hosts that the http_* tools may reach besides this machine."),
    ] = ()
    setup: Annotated[Texts, Meta(description="What is done before the steps.")] = ()
    teardown: Annotated[
        Texts, Meta(description="What is done at the end, also after a failed step.")
    ] = ()


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
