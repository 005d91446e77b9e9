"""Ollama: chats, completions, and the models of a machine."""
