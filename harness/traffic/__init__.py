"""What kernels move on their pinned cases, held to a record: time lost shows without a GPU."""
