"""Every exception that the conversation runtime raises on purpose."""

from __future__ import annotations


class ChatError(Exception):
    """The base class: its message is written for the developer of the application."""


class TokenLimitExceeded(ChatError):
    """A request that is not sent: it has more tokens than its model accepts."""

    def __init__(self, tokens: int, limit: int, model: str) -> None:
        self.tokens = tokens
        self.limit = limit
        self.model = model
        super().__init__(f"Request exceeds token limit: {tokens} > {limit} for model {model}")


class UnknownModel(ChatError):
    """A model that the server does not have."""


def error_text(error: BaseException) -> str:
    """The message of an exception, which can always be encoded; else the name of its type."""
    try:
        text = str(error)
    except Exception:  # an application's exception may fail here too
        text = ""
    return text.encode("utf-8", "backslashreplace").decode() or type(error).__name__
