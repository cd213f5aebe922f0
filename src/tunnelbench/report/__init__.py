"""Makes reports from stored results alone: `render` is the entry, `formats` has one module for each format."""
