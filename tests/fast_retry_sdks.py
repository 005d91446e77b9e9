"""The SDKs that ask again by themselves, and do not wait long before they do."""

from __future__ import annotations

from typing import Any, Final

import anthropic
import openai

_SOON: Final = 0.01
"""Seconds between two requests at the most."""


class HastyOpenAI(openai.AsyncOpenAI):
    """OpenAI's own client, which waits at most 10 ms before it asks again."""

    def _calculate_retry_timeout(self, *args: Any, **named: Any) -> float:
        return min(_SOON, super()._calculate_retry_timeout(*args, **named))


class HastyAnthropic(anthropic.AsyncAnthropic):
    """Anthropic's own client, which waits at most 10 ms before it asks again."""

    def _calculate_retry_timeout(self, *args: Any, **named: Any) -> float:
        return min(_SOON, super()._calculate_retry_timeout(*args, **named))
