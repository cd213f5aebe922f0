"""One module a format: `render(document, style) -> str`. A module put here is a format of that name."""
