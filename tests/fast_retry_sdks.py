"""The official SDKs with automatic retries, after a short wait."""

from __future__ import annotations

from typing import Any, Final

import anthropic
import openai

_MAX_RETRY_DELAY_S: Final = 0.01
"""The maximum of seconds before a retry."""


class FastRetryOpenAI(openai.AsyncOpenAI):
    """OpenAI's official client, which waits at most 10 ms before a retry."""

    def _calculate_retry_timeout(self, *args: Any, **kwargs: Any) -> float:
        return min(_MAX_RETRY_DELAY_S, super()._calculate_retry_timeout(*args, **kwargs))


class FastRetryAnthropic(anthropic.AsyncAnthropic):
    """Anthropic's official client, which waits at most 10 ms before a retry."""

    def _calculate_retry_timeout(self, *args: Any, **kwargs: Any) -> float:
        return min(_MAX_RETRY_DELAY_S, super()._calculate_retry_timeout(*args, **kwargs))
