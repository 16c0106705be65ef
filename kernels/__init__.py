"""Triton kernels of this project; importing a module registers its implementations and launches nothing."""
