"""The version. `make` writes it from the file VERSION; pyproject.toml reads it from here."""

__version__ = "0.2.0"
