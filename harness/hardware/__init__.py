"""What needs a GPU: the device lane, tests by target, emulation of a target, isolation of tests.

Nothing here imports torch or Triton when it is imported, but for modules that are named where they are used.
"""
