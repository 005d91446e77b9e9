"""Scenario documents: schema, parsing and validation.

document     the structs of a document, and the JSON Schema of scenario files
loading      parses whole files
nodes        values with their positions
yaml_text    parses YAML, with plain messages for its errors
json_text    parses JSON
checking     checks documents against their structs, with the position of each mistake
wrong_types  messages for values of the wrong type
names        other spellings of fields and choices; suggestions for typing errors
validators   rules that types cannot express
mistakes     mistakes and findings, with their file, line and path
"""
