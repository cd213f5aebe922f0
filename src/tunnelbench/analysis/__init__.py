"""Conclusions from stored figures: statistics, classes, limits, costs, comparisons. It does no I/O."""
