"""A folder of cassettes, and the takes in it."""
