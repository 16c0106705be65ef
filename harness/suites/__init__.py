"""Suites that run on whatever is registered: ``pytest --pyargs harness.suites``."""
