"""Records running streams as cassettes, whatever happens on the way."""
