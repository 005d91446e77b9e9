"""A small assistant: it answers questions with the help of tools, over three model APIs."""
