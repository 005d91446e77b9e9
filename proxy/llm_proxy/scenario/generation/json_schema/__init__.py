"""JSON Schemas in the forms that LLM APIs accept, and values for them; see `generated_values`.

schemas       normalises schemas, resolves references, lists alternatives
merging       merges two schemas into one
validation    whether a value is valid
maker         generates a value for a schema
numbers, texts  numbers and strings for a schema
regex_engine  generates and matches texts for a regular expression
regex_parser  parses regular expressions for `regex_engine`
budget        limits the work per value
"""
