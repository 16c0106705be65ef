"""Devices that are described instead of present, and two ways to budget their SMs: ours, and the seed's logic.

The seed is the change that first reserved SMs for MegaMoE; ``SeedBudgets`` does what it did, in our words.
"""

from contextlib import contextmanager
from dataclasses import dataclass, field

from harness.launch import sm_budget as this_harness

RESERVE = "RESERVED_SMS"


@dataclass(eq=False)
class Devices:
    """A source of SM counts; ``counts`` by device, changed by entering another context."""

    counts: dict[int, int]
    arch: int = 100
    current: int = 0
    contexts: dict[int, object] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)

    def current_device(self):
        return self.current

    def context(self, device):
        return self.contexts.get(device, "device")

    def count(self, device):
        self.asked.append(device)
        return self.counts[device]

    def enter_context(self, device, sms):
        self.contexts[device] = object()
        self.counts[device] = sms


class OurBudgets:
    """`sm_budget` with the reserve that the environment asks for now."""

    def __init__(self, devices, module=this_harness):
        self.devices = devices
        self.module = module

    def budget(self, device=None):
        return self.module.sm_budget(int(self.devices.environment.get(RESERVE, 2)), device=device)

    def set(self, sms, device=None):
        self.module.set_num_sms(sms, device)

    def launched_on(self, device=None):
        return self.module.available_sms(device)


class SeedBudgets:
    """One number for the process; its limit is worked out at the first use and kept."""

    def __init__(self, devices):
        self.devices = devices
        self.sms = devices.counts[devices.current]
        self.limits = []

    def limit(self):
        if not self.limits:
            reserve = max(int(self.devices.environment.get(RESERVE, 2)), 0)
            count = self.devices.counts[self.devices.current]
            self.limits.append(None if self.devices.arch < 100 else max(2, count - reserve))
        return self.limits[0]

    @contextmanager
    def budget(self, device=None):
        limit = self.limit()
        if limit is None:
            yield self.sms
            return
        before = self.sms
        target = min(limit, before)
        target -= target % 2
        if target == before:
            yield target
            return
        self.set(target)
        try:
            yield target
        finally:
            self.set(before)

    def set(self, sms, device=None):
        self.sms = sms

    def launched_on(self, device=None):
        # the setter takes 0 for "all"
        return self.sms or self.devices.counts[self.devices.current]
