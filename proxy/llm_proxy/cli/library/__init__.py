"""What the library commands share: rows, filters and groups."""
