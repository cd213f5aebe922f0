"""Jobs for several racks: a queue in the team's PostgreSQL, and the worker that takes jobs from it.

Procrastinate is the job engine. Only this package imports it, and only when a verb for jobs is used.
"""
