"""Runs every case on a GPU in worker processes: a kernel that ends its process, or hangs, costs that case only."""

import io
import json
import lzma
import multiprocessing
import os
import platform
import queue
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch
import triton

#: A case that takes longer than this has hung.
SECONDS_A_CASE = 60


def about():
    """What the recording was made on."""
    return {
        "gpu": torch.cuda.get_device_name(),
        "target": "sm_{}{}".format(*torch.cuda.get_device_capability()),
        "driver": _said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"),
        "ptxas": _ptxas(),
        "triton": triton.__version__,
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


def _said(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown: {error}"


def _ptxas():
    try:
        return str(triton.knobs.nvidia.ptxas.version)
    except Exception as error:
        return f"unknown: {error}"


def _reason(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip("^ ")] or [""]
    # a compilation error quotes the kernel first and says what is wrong last; the driver says it first
    said = lines[0] if "CUDA" in lines[0] else lines[-1]
    return f"{type(error).__name__}: {said}"[:300]


def _work(connection, device, cache, log):
    """Child process: answer names of cases with their results, or why there are none, and whether to go on here."""
    os.environ["TRITON_CACHE_DIR"] = cache
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    from tests.vgpu.conformance.cases import every_case

    cases = every_case()
    if device == "cuda":
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
        connection.send(about())
    else:
        connection.send({"gpu": "virtual", "triton": triton.__version__})
    while True:
        id = connection.recv()
        try:
            connection.send((run(cases[id], device), True))
        except Exception as error:
            # after an error of the driver the context is lost, and with it this process's use
            usable = device != "cuda" or "CUDA" not in str(error)
            connection.send((_reason(error), usable))


def run(case, device):
    """The bits of every result of ``case`` on ``"cuda"``, or on the virtual GPU of a profile's name."""
    if device == "cuda":
        results = case.run("cuda")
        torch.cuda.synchronize()
        return results
    from harness.vgpu import VirtualGPU

    with VirtualGPU(profile=device):
        return case.run("cpu")


class Worker:
    """A child process that runs cases, replaced when it dies."""

    def __init__(self, device, folder):
        self.device = device
        self.folder = folder
        self.about = None
        self.process = None

    def _start(self):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        cache = tempfile.mkdtemp(dir=self.folder)
        log = str(Path(self.folder) / "log")
        self.process = context.Process(target=_work, args=(theirs, self.device, cache, log), daemon=True)
        self.process.start()
        theirs.close()
        if self.connection.poll(120):
            self.about = self.connection.recv()

    def _stop(self):
        self.process.kill()
        self.process.join()
        self.process = None

    def ask(self, id):
        """The results of a case, or why there are none."""
        try:
            if self.process is None or not self.process.is_alive():
                self._start()
            self.connection.send(id)
            if self.connection.poll(SECONDS_A_CASE):
                found, usable = self.connection.recv()
                if not usable:
                    self._stop()
                return found
            self._stop()
            return f"no answer in {SECONDS_A_CASE} s"
        except (EOFError, OSError):
            self._stop()
            return "the process died"

    def end(self):
        if self.process is not None:
            self._stop()


def record(path, device, workers, seconds, chosen):
    """Run the cases that ``chosen`` says of their name and digest, and write ``path``.

    Returns (recorded, refused, seconds).
    """
    from tests.vgpu.conformance.cases import every_case

    began = time.monotonic()
    cases = {id: case for id, case in every_case().items() if chosen(id, case.digest())}
    waiting = queue.SimpleQueue()
    for id in cases:
        waiting.put(id)
    found, abouts = {}, []

    def serve(folder):
        worker = Worker(device, folder)
        try:
            while time.monotonic() - began < seconds:
                id = waiting.get_nowait()
                found[id] = worker.ask(id)
        except queue.Empty:
            pass
        finally:
            abouts.append(worker.about)
            worker.end()

    with tempfile.TemporaryDirectory() as folder:
        threads = [threading.Thread(target=serve, args=(folder,)) for _ in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    said = next(filter(None, abouts))
    refused = {id: found.get(id, "not run: out of time") for id in cases if not isinstance(found.get(id), list)}
    results = {id: value for id, value in found.items() if id not in refused}
    digests = {id: case.digest() for id, case in cases.items()}
    write(path, {"about": said, "refused": refused, "digests": digests}, results)
    return len(results), len(refused), time.monotonic() - began


def write(path, header, results, preset=1):
    """Save lists of arrays by name, and a header of plain values."""
    arrays = {f"{id}:{i}": array for id, found in results.items() for i, array in enumerate(found)}
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    held = io.BytesIO()
    np.savez(held, **arrays)
    path.write_bytes(lzma.compress(held.getvalue(), preset=preset))


def read(path):
    """What ``write`` saved: (header, results)."""
    with np.load(io.BytesIO(lzma.decompress(Path(path).read_bytes()))) as arrays:
        results = {}
        for key in arrays.files:
            if key != "header":
                results.setdefault(key.rpartition(":")[0], []).append(arrays[key])
        return json.loads(arrays["header"].tobytes()), results
