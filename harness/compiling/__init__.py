"""The compile lane: every kernel that is launched, compiled for every target without a GPU, and judged.

Nothing here imports torch or Triton when it is imported.
"""
