"""Benchmarks as contracts: workloads timed against their floor, runs compared, and one page that shows it all."""
