"""OpenAI and those who speak as it does: chats, completions, responses."""
