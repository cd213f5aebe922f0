"""A whole virtual router: its image from Debian's packages, its board in QEMU, its share of this machine's CPU."""
