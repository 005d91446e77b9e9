"""Ollama: chats, completions, embeddings and model management."""
