"""Child process: times one workload under Triton's own interpreter and writes seconds and programs run."""

import math
import sys
import time

import torch

from tests.benchmarks.workloads import WORKLOADS


def main(name):
    torch.manual_seed(0)
    work = WORKLOADS[name]()
    # once, small: imports and caches
    work.launch((1,) * len(work.grid))
    begin = time.perf_counter()
    work.launch(work.smaller)
    sys.stdout.write(f"{time.perf_counter() - begin} {math.prod(work.smaller)}\n")


main(sys.argv[1])
