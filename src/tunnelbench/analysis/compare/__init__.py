"""Comparison of two results, each a run or a published result.

`sides` gives both results one shape, `matching` pairs their rows, `comparison` decides which is faster, and
`differences` lists the other facts that differ. `labels` names published rows that match one row.
"""
