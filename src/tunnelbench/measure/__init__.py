"""Measuring: the proof of a tunnel, one trial, its counters, CPU and checks."""
