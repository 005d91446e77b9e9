"""Generates values that fit a request.

generated_values  values that are valid against a JSON Schema
json_schema       normalises, merges and validates schemas
scalars           numbers and strings for a schema, within a budget of work
templates         fills values of a request into texts
"""
