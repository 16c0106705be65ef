"""Faults planted in device facts and residency: what programs get wrong about launches, one change of source each."""

from tests.teeth.planted import Planted


class LaunchFault(Planted):
    """In ``harness/FILE``, ``old``, which stands there once, becomes ``new``; ``check`` must fail.

    ``check`` names one of ``tests.unit``'s ``launch_checks``, ``context_checks`` or ``detect_checks``.
    """


def _residency(name: str, old: str, new: str, check: str) -> LaunchFault:
    return LaunchFault(name, "launch/residency.py", old, new, check)


def _grid(name: str, old: str, new: str, check: str) -> LaunchFault:
    return LaunchFault(name, "launch/grids.py", old, new, check)


FAULTS = (
    _residency(
        "register granularity ignored",
        "a_warp = _up(resources.registers * limits.warp_size, limits.register_unit)",
        "a_warp = resources.registers * limits.warp_size",
        "nvidias_published_examples_hold",
    ),
    _residency(
        "registers pooled over the sub-partitions",
        "limits.registers // limits.sub_partitions // a_warp * limits.sub_partitions",
        "limits.registers // a_warp",
        "nvidias_published_examples_hold",
    ),
    _residency(
        "launch check counts the warps as they are",
        "a_warp * _up(resources.num_warps, limits.sub_partitions)",
        "a_warp * resources.num_warps",
        "a_real_devices_own_limits_and_units_count",
    ),
    _residency(
        "registers a thread unbounded",
        "resources.registers > limits.registers_per_thread",
        "resources.registers > 512",
        "allocation_granularities_count",
    ),
    _residency(
        "reserve of shared memory forgotten",
        "_up(resources.shared + limits.shared_reserved, limits.shared_unit)",
        "max(1, _up(resources.shared, limits.shared_unit))",
        "allocation_granularities_count",
    ),
    _residency(
        "granularity of shared memory ignored",
        "_up(resources.shared + limits.shared_reserved, limits.shared_unit)",
        "resources.shared + limits.shared_reserved",
        "allocation_granularities_count",
    ),
    _residency(
        "static shared memory forgotten",
        "return self.shared_dynamic + self.shared_static",
        "return self.shared_dynamic",
        "allocation_granularities_count",
    ),
    _residency(
        "shared memory a block off by one",
        "taken > limits.shared_per_block + limits.shared_reserved",
        "taken >= limits.shared_per_block + limits.shared_reserved",
        "limits_of_desktop_blackwell_hold",
    ),
    _residency(
        "shared memory a block unbounded",
        "taken > limits.shared_per_block + limits.shared_reserved",
        "taken > limits.shared",
        "a_real_devices_own_limits_and_units_count",
    ),
    _residency(
        "hardware barriers ignored",
        "if limits.barriers is not None and resources.barriers:",
        "if limits.barriers is None and resources.barriers:",
        "barriers_and_tensor_memory_count",
    ),
    _residency(
        "tensor memory ignored",
        "if resources.tensor_memory_columns:",
        "if resources.tensor_memory_columns > 512:",
        "barriers_and_tensor_memory_count",
    ),
    _residency(
        "the most generous limit taken",
        "limiter = min(found, key=lambda name: found[name][0])",
        "limiter = max(found, key=lambda name: found[name][0])",
        "facts_measured_on_an_h200_hold",
    ),
    _residency(
        "threads a block unbounded",
        "fits = threads <= limits.threads_per_block",
        "fits = threads > 0",
        "allocation_granularities_count",
    ),
    _residency(
        "VGPR granularity ignored", "waves = of // _up(taken, unit)", "waves = of // taken", "amd_waves_are_llvms"
    ),
    _residency(
        "trap handler's SGPRs forgotten",
        "taken = resources.sgprs + limits.sgprs_reserved",
        "taken = max(1, resources.sgprs)",
        "amd_waves_are_llvms",
    ),
    _residency(
        "waves packed over the SIMDs without gaps",
        "together if warps < simds else min(together, waves // -(-warps // simds))",
        "together",
        "amd_workgroups_are_the_smaller_reading",
    ),
    _residency(
        "workgroups a CU unbounded", "if warps > 1:", "if warps > 99:", "amd_workgroups_are_the_smaller_reading"
    ),
    _grid("clamped by the SM count alone", "bound = left * blocks", "bound = left", "grids_end_at_the_residency_bound"),
    _grid(
        "off by one", "grid = min(wanted, bound)", "grid = min(wanted, bound + 1)", "grids_end_at_the_residency_bound"
    ),
    _grid("reserve forgotten", "left = units - reserved", "left = units", "reserved_units_are_left_out"),
    _grid(
        "reserve taken off the blocks",
        "bound = left * blocks",
        "bound = units * blocks - reserved",
        "reserved_units_are_left_out",
    ),
    _grid("reserve of everything allowed", "if left < 1:", "if left < 0:", "reserved_units_are_left_out"),
    _grid("even grids not asked for", "2 if even else 1", "1", "even_grids_are_rounded_down"),
    _grid("rounded up to even", "grid -= grid % step", "grid += grid % step", "even_grids_are_rounded_down"),
    _grid("an odd partition split", "if units % 2:", "if units < 2:", "clusters_need_whole_pairs"),
    _grid("as many in clusters as alone", "min(blocks, CLUSTERED_BLOCKS)", "blocks", "clusters_need_whole_pairs"),
    _grid("clusters of four counted as pairs", "if cluster > 2:", "if cluster > 16:", "clusters_need_whole_pairs"),
    _grid(
        "a held SM costs one cluster",
        "bound = (pairs - reserved * blocks) * cluster",
        "bound = (pairs - reserved) * cluster",
        "clusters_need_whole_pairs",
    ),
    _grid(
        "a block that does not fit counted as one",
        "if not blocks:",
        "if blocks is None:",
        "a_block_that_no_unit_holds_is_refused",
    ),
    _grid(
        "partition ignored",
        "units = whole if num_sms is None else num_sms",
        "units = whole or num_sms",
        "reserved_units_are_left_out",
    ),
    _grid(
        "table's limits for every device",
        "where.limits if isinstance(where, Device) else target.limits",
        "target.limits",
        "a_real_devices_own_limits_and_units_count",
    ),
    LaunchFault(
        "scatter by major 12",
        "device/capabilities.py",
        'return tma_form(target, "scatter", triton) == "native"',
        'return target.arch.startswith(("sm_10", "sm_12"))',
        "descriptors_hold_for_every_target_and_triton",
    ),
    LaunchFault(
        "scatter missing on sm_120 only",
        "device/capabilities.py",
        'return tma_form(target, "scatter", triton) == "native"',
        'return target.arch != "sm_120" and tma_form(target, "gather", triton) == "native"',
        "descriptors_hold_for_every_target_and_triton",
    ),
    LaunchFault(
        "Triton's version ignored",
        "device/capabilities.py",
        "return _TMA[target.arch][version]",
        "return _TMA[target.arch][TRITON_VERSIONS[-1]]",
        "descriptors_hold_for_every_target_and_triton",
    ),
    LaunchFault(
        "tensor memory from sm_100 on",
        "device/capabilities.py",
        'return "tensor_memory" in target.capabilities',
        'return target.vendor == "cuda" and int(target.arch[3:]) >= 100',
        "predicates_hold_for_every_target",
    ),
    LaunchFault(
        "fp8 by major 9",
        "device/capabilities.py",
        'return "fp8_mma" in target.capabilities',
        'return target.arch.startswith("gfx9") or target.arch in ("gfx1250",) or int(target.arch[3:]) >= 90',
        "predicates_hold_for_every_target",
    ),
    LaunchFault(
        "facts of device 0 for all",
        "device/_driver_child.py",
        "driver.cuDeviceGet(ctypes.byref(device), index)",
        "driver.cuDeviceGet(ctypes.byref(device), 0)",
        "every_device_is_asked_for_itself",
    ),
    LaunchFault(
        "NVML joined by position",
        "device/nvidia.py",
        "facts.get(_digits(device.uuid))) for device in found",
        "list(facts.values())[device.index]) for device in found",
        "nvml_is_joined_by_uuid",
    ),
    LaunchFault(
        "MIG instances overlooked",
        "device/nvidia.py",
        "if current != nvml.NVML_DEVICE_MIG_ENABLE:",
        "if current == nvml.NVML_DEVICE_MIG_ENABLE:",
        "nvml_is_joined_by_uuid",
    ),
    LaunchFault(
        "a crash of the driver read as no device",
        "device/nvidia.py",
        "if child.returncode < 0:",
        "if child.returncode < -99:",
        "a_crash_is_a_reason",
    ),
    _grid(
        "a device of this machine counts whole",
        "if num_sms is None and (index",
        "if num_sms is not None and (index",
        "this_machines_device_is_asked_what_may_be_used",
    ),
    _grid(
        "a budget in force is ignored",
        "min(whole, available_sms(index))",
        "min(whole, source().count(index))",
        "this_machines_device_is_asked_what_may_be_used",
    ),
    _grid(
        "another device is asked like the current one",
        "return where.index if where in devices else None",
        "return where.index",
        "this_machines_device_is_asked_what_may_be_used",
    ),
    _grid(
        "a product that is here is taken from the table",
        "return current if any(alike) else None",
        "return None",
        "this_machines_device_is_asked_what_may_be_used",
    ),
    _grid(
        "a product that another device is counts like the current one",
        "device.index == current and (device.arch, device.units)",
        "(device.arch, device.units)",
        "this_machines_device_is_asked_what_may_be_used",
    ),
    _grid(
        "whoever cannot be asked has nothing",
        "        # what was detected and cannot be asked has no context either\n        return whole",
        "        return 1",
        "this_machines_device_is_asked_what_may_be_used",
    ),
    _grid(
        "the driver is never asked for clusters",
        "if active_clusters is None and function is not None and",
        "if active_clusters is not None and function is not None and",
        "the_driver_counts_the_clusters_of_a_compiled_kernel",
    ),
    _grid(
        "the driver is asked for the kernel's own clusters",
        "drivers.active_clusters(function, cluster, resources)",
        "drivers.active_clusters(function, resources.cluster_size, resources)",
        "the_driver_counts_the_clusters_of_a_compiled_kernel",
    ),
    LaunchFault(
        "every driver has green contexts",
        "launch/context.py",
        'if not hasattr(driver, "cuCtxGetDevResource"):',
        "if driver is None:",
        "a_driver_without_green_contexts_gives_the_devices_units",
    ),
    LaunchFault(
        "a context's device is the first",
        "launch/context.py",
        "_MULTIPROCESSOR_COUNT, device)",
        "_MULTIPROCESSOR_COUNT, ctypes.c_int(0))",
        "a_driver_without_green_contexts_gives_the_devices_units",
    ),
    LaunchFault(
        "every driver numbers its contexts",
        "launch/physical.py",
        'context is None or not hasattr(self._library, "cuCtxGetId")',
        "context is None",
        "a_driver_without_green_contexts_gives_the_devices_units",
    ),
    LaunchFault(
        "AMD units by the CU's SIMDs everywhere",
        "device/amd.py",
        'AMD[arch].simds if arch in AMD else int(facts["simd_per_cu"])',
        'int(facts["simd_per_cu"])',
        "amd_nodes_are_counted_in_the_tables_units",
    ),
    LaunchFault(
        "AMD visibility skips what is not there",
        "device/amd.py",
        "                break",
        "                continue",
        "amd_nodes_are_counted_in_the_tables_units",
    ),
)
