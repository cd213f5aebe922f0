"""What `tunnelbench show` says of one thing: a module a noun."""
