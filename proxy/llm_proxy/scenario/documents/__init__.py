"""Scenario documents: schema, parsing and validation.

document     the structs of a document
fields       field types of these structs
parsing      YAML and JSON with the position of each value
loading      parses whole files
checking     checks documents against their structs, with the position of each mistake
names        other spellings of fields and choices; suggestions for typing errors
type_choice  which type of a union a value is checked against
wrong_types  messages for values of the wrong type
validators   rules that types cannot express
findings     what validators find
mistakes     a mistake with its file, line and path
schema       the JSON Schema of scenario files
"""
