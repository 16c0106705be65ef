"""Machines with one or more devices, whole or partitioned, and rows of the table of capabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from harness.device.capabilities import TRITON_VERSIONS, TritonVersion
from harness.device.machine import Device, Machine
from harness.device.named import DEVICES
from harness.device.targets import TARGETS, Target, Vendor, target_of
from harness.strategies.spec import Spec, require

#: A product's name and its partition ("DPX", "1g"), None for the whole device.
Part = tuple[str, str | None]
_VENDORS: tuple[Vendor, ...] = ("cuda", "rocm")


@dataclass(frozen=True, kw_only=True, repr=False)
class Topology(Spec):
    """The devices of one machine, in the order of their indices."""

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        for name, partition in self.parts:
            require(name in DEVICES, "parts", f"products among {', '.join(DEVICES)}", name)
            known = partition is None or partition in DEVICES[name].partitions
            require(known, "parts", f"a partition of {name}", partition)

    @property
    def units(self) -> tuple[int, ...]:
        """SMs or CUs of each device."""
        return tuple(DEVICES[name].units_of(partition) for name, partition in self.parts)

    def machine(self) -> Machine:
        """Return the machine that detection would find."""
        return Machine(
            devices=tuple(
                Device(
                    index=index,
                    vendor=DEVICES[name].target.vendor,
                    arch=DEVICES[name].arch,
                    units=units,
                    name=name,
                    mig=partition is not None and DEVICES[name].target.vendor == "cuda",
                )
                for index, ((name, partition), units) in enumerate(zip(self.parts, self.units, strict=True))
            )
        )


def topologies(
    *,
    min_devices: int = 1,
    max_devices: int = 4,
    min_units: int = 1,
    max_units: int = 304,
    vendors: Sequence[Vendor] = _VENDORS,
) -> st.SearchStrategy[Topology]:
    """Machines of ``min_devices`` to ``max_devices`` devices of one vendor, each with a number of units in the range.

    A third of the larger machines are uniform, as most real ones; the others mix products and partitions, of one
    architecture or of any, so a later device may have fewer units, another architecture, or both.  Shrinks to as few
    devices as fail, all the first product.  Raises ValueError where no device has that many units, and on impossible
    arguments.
    """
    require(0 <= min_devices <= max_devices, "min_devices", "0 to max_devices", min_devices)
    require(bool(vendors), "vendors", "at least one vendor", vendors)
    for vendor in vendors:
        require(vendor in _VENDORS, "vendors", f"vendors among {', '.join(_VENDORS)}", vendor)
    parts: dict[str, list[Part]] = {vendor: [] for vendor in vendors}
    for device in DEVICES.values():
        if device.target.vendor in parts:
            for partition in (None, *device.partitions):
                if min_units <= device.units_of(partition) <= max_units:
                    parts[device.target.vendor].append((device.name, partition))
    choices = [found for found in parts.values() if found]
    require(bool(choices), "min_units", f"a number that some device has, at most {max_units}", min_units)
    return st.sampled_from(choices).flatmap(lambda found: _machines(found, min_devices, max_devices))


def _machines(parts: list[Part], least: int, most: int) -> st.SearchStrategy[Topology]:
    part = st.sampled_from(parts)
    mixed = st.lists(part, min_size=least, max_size=most)
    uniform = st.tuples(part, st.integers(least, most)).map(lambda drawn: [drawn[0]] * drawn[1])
    alike = part.flatmap(
        lambda first: st.lists(
            st.sampled_from([like for like in parts if DEVICES[like[0]].arch == DEVICES[first[0]].arch]),
            min_size=least,
            max_size=most,
        )
    )
    return st.one_of(mixed, uniform, alike).map(lambda drawn: Topology(parts=tuple(drawn)))


@dataclass(frozen=True, kw_only=True, repr=False)
class CapabilityRow(Spec):
    """One architecture under one version of Triton (major, minor)."""

    arch: str
    triton: TritonVersion = TRITON_VERSIONS[-1]

    def __post_init__(self) -> None:
        known = ", ".join(target.arch for target in TARGETS.values())
        require(any(self.arch == target.arch for target in TARGETS.values()), "arch", f"one of {known}", self.arch)
        require(self.triton in TRITON_VERSIONS, "triton", f"one of {TRITON_VERSIONS}", self.triton)

    @property
    def target(self) -> Target:
        """The architecture's facts."""
        return target_of(self.arch)


def capability_rows(
    *, vendors: Sequence[Vendor] = _VENDORS, versions: Sequence[TritonVersion] = TRITON_VERSIONS
) -> st.SearchStrategy[CapabilityRow]:
    """Every target of ``vendors`` under every Triton of ``versions``; shrinks to the first target and version.

    Raises ValueError where there is none.
    """
    require(bool(versions), "versions", "at least one Triton", versions)
    for version in versions:
        require(version in TRITON_VERSIONS, "versions", f"versions among {TRITON_VERSIONS}", version)
    rows = [
        CapabilityRow(arch=target.arch, triton=version)
        for target in TARGETS.values()
        if target.vendor in vendors
        for version in versions
    ]
    require(bool(rows), "vendors", f"vendors among {', '.join(_VENDORS)}", vendors)
    return st.sampled_from(rows)
