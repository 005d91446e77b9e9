"""The tools that the model may call: plain functions, and what the model is told about them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

WEATHER = {
    "Cairo": "34 degrees, sunny",
    "Lisbon": "21 degrees, windy",
    "Oslo": "4 degrees, snow",
}
OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


@dataclass(frozen=True)
class Tool:
    """A function with its description for the model."""

    function: Callable[..., str]
    description: str
    parameters: dict[str, dict[str, Any]]
    """The JSON Schema of each parameter."""

    @property
    def name(self) -> str:
        """The name by which the model calls the function."""
        return self.function.__name__

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of all parameters."""
        return {
            "type": "object",
            "properties": self.parameters,
            "required": [*self.parameters],
            "additionalProperties": False,
        }


def get_weather(city: str) -> str:
    """The weather in a city."""
    return WEATHER[city]


def calculate(left: float, operator: str, right: float) -> str:
    """The result of an arithmetic operation."""
    return f"{OPERATORS[operator](left, right):g}"


TOOLS = (
    Tool(
        get_weather,
        "The weather in a city",
        {"city": {"type": "string", "enum": [*WEATHER]}},
    ),
    Tool(
        calculate,
        "The result of an arithmetic operation",
        {
            "left": {"type": "number"},
            "operator": {"type": "string", "enum": [*OPERATORS]},
            "right": {"type": "number"},
        },
    ),
)


def call_tool(name: str, arguments: dict[str, Any]) -> str:
    """The result of a tool, or a text from which the model learns why there is none."""
    for tool in TOOLS:
        if tool.name == name:
            try:
                return tool.function(**arguments)
            except (ArithmeticError, LookupError, TypeError) as error:
                return f"error: {type(error).__name__}: {error}"
    return f"error: no tool named {name}"
