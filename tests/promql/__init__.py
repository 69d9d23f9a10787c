"""Proof of the language: Prometheus's own test format, a real server's answers, and random queries."""
