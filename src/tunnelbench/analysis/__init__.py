"""What the figures say: statistics, classes, limits, doubts. No I/O, and nothing below `model` is known."""
