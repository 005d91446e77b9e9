"""Parses YAML 1.2 (core schema) and JSON with the position of every value.

nodes          values with their positions
scalars        values of unquoted YAML text
composing      builds nodes: limits, duplicate names, aliases
yaml_text      parses YAML into a composer
yaml_messages  plain messages for errors of its parser
json_text      parses JSON into a composer
"""
