"""TunnelBench: what a router can carry through a VPN tunnel, and what that costs it."""

__version__ = "0.1.0"
