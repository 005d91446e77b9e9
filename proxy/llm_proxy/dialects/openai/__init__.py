"""OpenAI and compatible providers: chats, completions, responses."""
