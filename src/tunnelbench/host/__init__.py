"""Run this there: hosts, the one function that starts every command, and what /proc says."""
