"""Faults made by rule in kernels, and how many of them the checks of a contract find."""
