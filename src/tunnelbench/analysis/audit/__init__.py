"""Audit of a published table: it checks packet rates, limits of the line, CPU sums and shares against each other.

`tables` reads the text, `headings` recognises columns, `quantities` reads cells, and `rows` joins them. `rules` compute
the expected figures, `causes` search for the mistake that gives the printed figure, and `verdict` joins the results.
"""
