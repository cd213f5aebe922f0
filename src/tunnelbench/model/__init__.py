"""The terms of the project as frozen dataclasses, each field with its unit. The package does no I/O and imports only
the standard library."""
