"""What Strata knows as data: signals and the exporters that yield them, hardware, XID codes."""
