"""Google: the Gemini API and the Interactions API."""
