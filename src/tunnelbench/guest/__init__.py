"""Runs a plan on another kernel: the whole testbed is inside a virtual machine (guest), the store is outside."""
