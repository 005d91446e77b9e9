"""Output of all commands: escaped text, tables and JSON documents."""
