"""Receipts: what ran on which device, with which sources; written there, checked where there is no device.

A receipt detects accident (another commit, edited files, a run that skipped everything), not forgery: whoever writes
one can write anything into it.
"""
