"""Faults planted in the choice of a device: one change of source each."""

from tests.teeth.hardware_faults import fault

FAULTS = (
    fault(
        "a test runs on whatever device is current",
        "placing",
        "    with torch.cuda.device(device.index):",
        "    with torch.cuda.device(torch.cuda.current_device()):",
        "a_test_runs_on_the_device_of_its_target",
    ),
    fault(
        "a machine with a device of the target takes the first of all",
        "placing",
        "return device_of(target, machine) or stand_in(target, machine)",
        "return stand_in(target, machine)",
        "a_test_runs_on_the_device_of_its_target",
    ),
    fault(
        "torch is asked where there is nothing to choose",
        "placing",
        "for other in machine.devices) == 1:",
        "for other in machine.devices) == 0:",
        "a_test_runs_on_the_device_of_its_target",
    ),
    fault(
        "a test is recorded where it was put",
        "placing",
        "if torch is not None and torch.cuda.is_initialized():",
        "if device is None and torch is not None and torch.cuda.is_initialized():",
        "the_device_that_was_used_is_known",
    ),
    fault(
        "a test is not told from the device it was put on",
        "selection",
        "        item.stash[_PLACED] = device\n",
        "        item.stash[_PLACED] = None\n",
        "a_test_runs_on_the_device_of_its_target",
    ),
    fault(
        "the first device stands in, whatever it lacks",
        "placing",
        "if not lacking(device.target, target)",
        "if device.target",
        "the_device_that_can_stands_in",
    ),
    fault(
        "the lane of a target is that of the current device",
        "lane",
        'return DeviceLane(torch.device("cuda", device.index))',
        "return DeviceLane(current)",
        "the_lane_of_a_target_is_on_its_device",
    ),
    fault(
        "of two devices of a target the lane leaves the current one",
        "lane",
        "if target is None or _is(current, target):",
        "if target is None:",
        "the_lane_of_a_target_is_on_its_device",
    ),
    fault(
        "a target that is here is emulated on the current device",
        "lane",
        "    if device := placing.device_of(target, machine):",
        "    if device := None:",
        "the_lane_of_a_target_is_on_its_device",
    ),
    fault(
        "the suite runs on the current device",
        "suite",
        '    """Run illegal calls, pinned cases and drawn ones on the device."""\n    lane = device_lane(target)',
        '    """Run illegal calls, pinned cases and drawn ones on the device."""\n    lane = device_lane()',
        "the_suite_runs_on_the_device_of_its_target",
    ),
    fault(
        "real sizes run on the current device",
        "suite",
        'with the oracle there too."""\n    lane = device_lane(target)',
        'with the oracle there too."""\n    lane = device_lane()',
        "the_suite_runs_on_the_device_of_its_target",
    ),
    fault(
        "a child process sees the device of that number in the machine",
        "placing",
        "visible[device.index] if device.index < len(visible) else str(device.index)",
        "str(device.index)",
        "a_child_process_sees_the_device_alone",
    ),
)
