"""JSON Schemas as LLM APIs take them, and the values that they ask for; see `made_values`.

schemas    one shape for all spellings, and every way to be valid
merging    two schemas as one
fitness    whether a value is valid
maker      a value on its way out of a schema
numbers, texts, patterns  values of one type
expressions  regular expressions, read for `patterns`
budget     how much work one value may be
"""
