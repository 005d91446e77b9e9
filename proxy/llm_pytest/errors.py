"""Every exception that llm_pytest raises on purpose."""

from __future__ import annotations

from llm_proxy.errors import LlmProxyError


class LLMTestError(LlmProxyError):
    """The base class: its message is written for the author of a test."""


class PluginFailed(LLMTestError):
    """A plugin cannot be used; the message names the file and the reason."""


class ProviderFailed(LLMTestError):
    """A provider could not run a test to its end; the message is why, in one sentence."""


class UnknownProvider(LLMTestError, ValueError):
    """There is no provider of that name.  Source: owner's document 003, "Register the Provider"."""


class UnreadableVerdict(LLMTestError):
    """The last response of the model contains no verdict; the message is why."""
