"""Two results against each other, each a run or a reference: `sides` makes them alike, `matching` finds the rows that
belong together, `comparison` says which is faster, `differences` what else is unlike.
"""
