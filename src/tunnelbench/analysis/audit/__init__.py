"""Holds a published table against itself: packet rates, limits of the line, CPU sums, shares. Text in, findings out.

`tables` reads, `headings` recognises columns, `quantities` reads cells, `rows` joins them, `rules` compute what ought
to be there, `causes` look for the slip that gives what is, `verdict` puts it together.
"""
