"""Cohere: chats of version 2 and version 1."""
