"""A tool of this project: what is in stock."""

from __future__ import annotations

from typing import Any

from llm_pytest.plugin_base import LLMPlugin

_IN_STOCK = {1: 12, 2: 0}


class StockPlugin(LLMPlugin):
    """The stock of the shop."""

    name = "stock"

    async def count(self, product: int) -> dict[str, Any]:
        """Count how many pieces of a product are in stock, by the product's id."""
        return {"product": product, "count": _IN_STOCK[product]}

    async def assert_available(self, product: int) -> dict[str, Any]:
        """Check that a product is in stock, by the product's id."""
        assert _IN_STOCK[product] > 0, f"product {product} is out of stock"
        return {"product": product, "count": _IN_STOCK[product]}
