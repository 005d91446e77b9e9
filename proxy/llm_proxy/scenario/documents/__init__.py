"""Scenario documents: schema, parsing and validation.

document    the structs of a document, and the JSON Schema of scenario files
loading     parses whole files
parsing     values with their positions, from YAML or JSON, with plain messages for errors
checking    checks documents against their structs, with the position of each mistake
names       other spellings of fields and choices; suggestions for typing errors
validators  rules that types cannot express
mistakes    mistakes and findings, with their file, line and path
"""
