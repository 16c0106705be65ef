"""Fixed shapes for the contract that tests mutate; in place when this is imported."""

from harness.mutation import fixed
from tests.unit.mutation_victim import Case

fixed.SHAPES["mutation_victim"] = (repr(Case(n=17)),)
fixed.TOLERANCES["mutation_victim"] = (0.0, 0.0)
