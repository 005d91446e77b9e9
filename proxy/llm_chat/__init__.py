"""llm_chat: drives LLM providers through conversations with tools."""
