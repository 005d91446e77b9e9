"""JSON Schemas as LLM APIs take them, and the values that they ask for; see `made_values`.

schemas    one shape for all spellings, and every way to be valid
merging    two schemas as one
fitness    whether a value is valid
numbers, texts, patterns  values of one type
"""
