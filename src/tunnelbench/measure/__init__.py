"""Measures trials: proves each tunnel, runs the traffic, reads packet counters and CPU times, and checks the result."""
