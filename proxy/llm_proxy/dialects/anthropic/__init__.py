"""Anthropic: the Messages API and its legacy completions."""
