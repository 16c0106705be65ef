"""Figures that the command line shows, apart from what needs numpy and torch to be imported."""

from __future__ import annotations

#: In so many, where blocks of a build differ by 1 %, a change of 5 % is found on 95 % of nights (180 workloads).
QUADS = 12
MARGIN, ALPHA, DRIFT = 0.02, 0.01, 0.10
#: How far a run of one process may be off where too few runs show how far processes are.  Seen: 22 %, 1.94 us in one
#: process and 1.59 us in each of six, the same kernel on two H200s (merge_attn_states, rot).
LONE = 0.25
BLOCK_SECONDS = 900.0
BASELINES = "ci/baselines"
#: Stands for the baseline of the device where a stored run is wanted.
ACCEPTED = "accepted"
TIMINGS = ("rot", "dob", "warm")
