"""Benchmarks: ratios measured in one run, never asserted in tests. Figures are in README.md beside this file."""
