"""The words of the project as frozen dataclasses, each field with its unit. No I/O, no third-party import."""
