"""Google: Gemini and its interactions."""
