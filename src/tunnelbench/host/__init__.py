"""Runs commands on hosts, locally or over SSH, and parses the kernel's files in /proc."""
