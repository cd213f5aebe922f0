"""The pages of `tunnelbench serve`: runs, racks and results in a browser, while they are measured.

Only this package imports Starlette and uvicorn, and only when the verb is used.
"""
