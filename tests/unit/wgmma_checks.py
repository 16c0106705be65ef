"""What the compile lane must see of a wgmma's registers: as checks, like those of ``compile_checks``."""

from harness.device.targets import target_of

FROM_REGISTERS = (
    "\twgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%r1,%r2}, {%r3,%r4,%r5,%r6}, %rd1, %p1, 1, 1, 0;"
)
FROM_SHARED = "\twgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%r1,%r2}, %rd2, %rd1, %p1, 1, 1, 0, 0;"
MULTIPLY = "HGMMA.64x16x16.F32.BF16 R24, {}, gdesc[UR4], R24{}"
FIRST, SECOND = MULTIPLY.format("R40", ", gsb0"), MULTIPLY.format("R44", ", gsb0")
OPEN = MULTIPLY.format("R40", "")
SHARED = "HGMMA.64x16x16.F32.BF16 R24, gdesc[UR8], R24, gsb0"
WAIT_0, WAIT_1 = "WARPGROUP.DEPBAR.LE gsb0, 0x0", "WARPGROUP.DEPBAR.LE gsb0, 0x1"
BACK = "@P0 BRA 0x0000"


def sass(*instructions):
    """Number ``instructions`` as cuobjdump does, 16 bytes each and with their encoding."""
    lines = [f"        /*{16 * n:04x}*/    {text} ;    /* 0x000fe2000000 */" for n, text in enumerate(instructions)]
    return "\n".join(["\t\tFunction : kernel", *lines, ""])


def found(api, *instructions):
    """Return (registers, groups outstanding) of what is written too early, None if nothing is."""
    hazard = api.wgmma_hazard.overwritten(sass(*instructions))
    return hazard and (hazard.registers, hazard.outstanding)


def the_next_step_must_not_write_what_is_read(api):
    """Two groups a step, one outstanding at the end of it: the second's registers are not free, the first's are."""
    step = (FIRST, WAIT_1, SECOND, WAIT_1, BACK, "EXIT")
    assert found(api, "LOP3.LUT R40, R1, R2, RZ, 0xc0, !PT", *step) is None
    assert found(api, "LOP3.LUT R44, R1, R2, RZ, 0xc0, !PT", *step) == (1, 1)
    assert found(api, "@!P1 LOP3.LUT P2, R44, R1, R2, RZ, 0xc0, !PT", *step) == (1, 1)
    assert found(api, "LDS.128 R44, [R3+UR4]", *step) == (4, 1)
    assert found(api, "LDS.128 R40, [R3]", FIRST, BACK) == (4, 32)
    assert found(api, FIRST, WAIT_1, "MOV R43, R1", WAIT_0, "EXIT") == (1, 1)
    assert found(api, OPEN, "MOV R41, R1", "EXIT") == (1, 1)
    assert found(api, SECOND, FIRST, WAIT_1, "IMAD.WIDE R42, R1, R2, R4", WAIT_0) == (2, 1)
    assert found(api, SECOND, FIRST, "MOV R47, R1") == (1, 2)


def what_is_waited_for_may_be_written(api):
    """A wait for all at the top of a step or at its end, or a copy after the wait that goes to registers of its own."""
    write = "LOP3.LUT R44, R1, R2, RZ, 0xc0, !PT"
    assert found(api, WAIT_0, write, FIRST, WAIT_1, SECOND, WAIT_1, BACK, "EXIT") is None
    assert found(api, write, FIRST, WAIT_1, SECOND, WAIT_0, BACK, "EXIT") is None
    copy = ("LOP3.LUT R60, R1, R2, RZ, 0xc0, !PT", FIRST, WAIT_1, "MOV R44, R60", SECOND, WAIT_1, BACK, "EXIT")
    assert found(api, *copy) is None
    assert found(api, "LDS.128 R44, [R3]", SHARED, SHARED, WAIT_1, BACK, "EXIT") is None
    for reading in (
        "STS.128 [R3], R44", "ISETP.GE.AND P1, PT, R44, R5, PT", "BAR.SYNC R44, R45", "R2UR UR4, R44", "R2P PR, R44",
        "@P1 STG.E desc[UR4][R44.64], R45", "HSETP2.BF16.GT.AND P1, PT, R44, R45, PT", "LOP3.LUT P1, RZ, R44, R5, RZ",
    ):  # fmt: skip
        assert found(api, reading, FIRST, WAIT_1, SECOND, WAIT_1, BACK, "EXIT") is None, reading


def every_path_is_walked(api):
    """0x00 goes to 0x40 or through 0x10..0x30, and only one of the two waits."""
    waits = ("@P1 BRA 0x0030", WAIT_0, "BRA 0x0030", "MOV R44, R1", SECOND, WAIT_1, BACK, "EXIT")
    assert found(api, *waits) == (1, 1)
    assert found(api, "BRA 0x0020", "MOV R44, R1", SECOND, "EXIT", "MOV R44, R1") is None
    assert found(api, SECOND, "BRA.U !UP0, 0x0030", "MOV R44, R1", "EXIT") == (1, 1)
    other = sass("MOV R44, R1", "EXIT").replace("kernel", "other")
    assert api.wgmma_hazard.overwritten(sass(SECOND, BACK, "EXIT") + other) is None


def registers_that_are_read_are_no_shared_memory(api):
    assert api.wgmma_hazard.reads_registers(f"{FROM_SHARED}\n{FROM_REGISTERS}\n")
    assert not api.wgmma_hazard.reads_registers(f"{FROM_SHARED}\n\twgmma.wait_group.sync.aligned 1;\n")


def what_is_written_too_early_fails(api):
    figures = api.figures.Figures(registers=64, shared=1024, spill_stores=8, overwritten=28, outstanding=7)
    judged = api.verdicts.judge(api.figures.Result(ending="compiled", figures=figures), target_of("sm_90"))
    assert (judged.verdict, judged.failing) == ("RACES", True)
    assert "28 registers" in judged.message
    assert "7 groups outstanding" in judged.message


WGMMA_CHECKS = {
    check.__name__: check
    for check in (
        the_next_step_must_not_write_what_is_read,
        what_is_waited_for_may_be_written,
        every_path_is_walked,
        registers_that_are_read_are_no_shared_memory,
        what_is_written_too_early_fails,
    )
}
