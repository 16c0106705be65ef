"""One-operation kernels whose results on a real GPU are kept as data and compared on every run without one.

``python -m tests.vgpu.conformance record --out FOLDER`` on a machine with a GPU writes ``raw.npz.xz``;
``python -m tests.vgpu.conformance pack FOLDER/raw.npz.xz`` makes of it the file that is kept in the tree.
"""
