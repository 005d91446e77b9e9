"""Prices of models, for the cost of a test where the provider does not report it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from llm_pytest.models import RunUsage


@dataclass(frozen=True, slots=True)
class Prices:
    """USD per million input tokens and output tokens, by model."""

    by_model: Mapping[str, tuple[float, float]]

    def with_cost(self, usage: RunUsage, model: str) -> RunUsage:
        """The usage with its cost, if the price is known and no cost was reported."""
        price = self.by_model.get(model)
        if price is None or usage.cost_usd is not None or usage.input_tokens is None:
            return usage
        cost = usage.input_tokens * price[0] + (usage.output_tokens or 0) * price[1]
        return msgspec.structs.replace(usage, cost_usd=cost / 1_000_000)


def parse_prices(lines: Sequence[str]) -> Prices:
    """The prices of lines such as `gpt-4o = 2.50 10.00`.  Raises `ValueError`."""
    by_model: dict[str, tuple[float, float]] = {}
    for line in lines:
        model, _, prices = line.rpartition("=")
        try:
            price_in, price_out = map(float, prices.split())
        except ValueError:
            price_in = price_out = -1.0
        if not model.strip() or not (price_in >= 0 and price_out >= 0):
            raise ValueError(
                f"llm_prices: {line!r}: expected MODEL = INPUT OUTPUT in USD per million tokens, "
                "such as gpt-4o = 2.50 10.00"
            )
        by_model[model.strip()] = (price_in, price_out)
    return Prices(by_model)
