"""A run on another kernel than the machine's own: the whole testbed inside a guest, store and screen outside."""
