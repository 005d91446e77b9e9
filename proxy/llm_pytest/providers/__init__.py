"""The providers that let a model carry out tests, by name."""
