"""Scenario documents: schema, parsing and validation.

document     the structs that a document is read into
reading      YAML and JSON with the place of each value
loading      files: everything in them
checking     documents checked against their structs, with the place of each mistake
names        other spellings of fields and words; what was probably meant
type_choice  which of a field's types a value is to have
wrong_types  what is said of a value that is none of them
sense        rules that types cannot say
findings     what those find
mistakes     what is wrong, and where
schema       the JSON Schema of files
"""
