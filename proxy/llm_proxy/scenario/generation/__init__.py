"""Generates values that fit a request.

generated_values  values that are valid against a JSON Schema
json_schema       normalises, merges and validates schemas; generates values of each type
templates         fills values of a request into texts
react             tool calls as text, for models without tools
"""
