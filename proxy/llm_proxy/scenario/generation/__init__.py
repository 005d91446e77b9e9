"""Generates values that fit a request.

made_values  values that are valid against a JSON Schema
json_schema  schemas read and merged, and values of each type
templates    what a request says, filled into texts
react        calls of tools as text, for models that are offered none
"""
