"""Parses YAML 1.2 (core schema) and JSON with the position of every value.

nodes      values, and where each stands
scalars    what unquoted text of YAML means
composing  values put together: limits, names that come twice, repetitions
yaml_text  YAML, told piece by piece
yaml_words what its parser complains of, in plain words
json_text  JSON, told piece by piece
"""
