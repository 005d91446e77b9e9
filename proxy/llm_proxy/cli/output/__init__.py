"""How all commands print: escaped text, tables, and JSON documents."""
