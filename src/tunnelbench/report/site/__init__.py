"""A site of results that needs no server: pages, and an index for people and for programs. It does no I/O."""
