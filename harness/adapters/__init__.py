"""Somebody else's kernels under our contracts; a module here registers its implementations when it is imported.

An adapter maps argument names and shapes and repairs nothing: what its kernels do wrong is what it is for.
"""
