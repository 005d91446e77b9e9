"""The built-in families of tools: `http_*` and `assert_*`."""
