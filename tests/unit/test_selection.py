"""Names on a command line: what they choose, and what a wrong one says."""

import pytest

from harness import selection
from harness.contract import Contract
from harness.discover import SetupError
from harness.tolerance import Exact


@pytest.fixture
def registered(own_registry):
    for name in ("gather", "merge"):
        own_registry.register(Contract(name=name, cases=None, inputs=None, oracle=dict, tolerance={"out": Exact()}))
        for implementation in ("triton", "acme", "acme-fast", "acmeish"):
            own_registry.implements(name, name=implementation)(dict)


def chosen(*arguments):
    return [(contract.name, implementation.name) for contract, implementation in selection.pairs(*arguments)]


@pytest.mark.usefixtures("registered")
def test_nothing_named_chooses_everything():
    assert len(chosen()) == 8


@pytest.mark.usefixtures("registered")
def test_a_name_chooses_itself_and_what_continues_it_after_a_dash():
    assert chosen(("merge",), "acme") == [("merge", "acme"), ("merge", "acme-fast")]
    assert chosen(("merge",), "acme-fast") == [("merge", "acme-fast")]


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((("marge",),), "no contract 'marge'; did you mean 'merge'\\?"),
        ((("xyzzy",),), "no contract 'xyzzy'; there are: gather, merge"),
        (((), "acme-fats"), "no implementation 'acme-fats'; did you mean 'acme-fast'\\?"),
        (((), "xyzzy"), "no implementation 'xyzzy'; there are: acme, acme-fast, acmeish, triton"),
    ],
)
def test_a_wrong_name_gets_the_nearest_one(arguments, message):
    with pytest.raises(SetupError, match=message):
        selection.pairs(*arguments)


@pytest.mark.usefixtures("own_registry")
def test_no_implementation_at_all_is_not_a_pass():
    with pytest.raises(SetupError, match="no implementation is registered"):
        selection.pairs()
