"""The state ledger around every test of a project that asks for it."""

import pytest

pytest_plugins = ["pytester"]

ON = "[pytest]\nstate_ledger = true\n"


def run(pytester, source, ini=ON):
    pytester.makeini(ini)
    pytester.makepyfile(source)
    return pytester.runpytest_inprocess("-p", "harness.state_plugin", "-p", "no:cacheprovider", "-q", *LIGHT)


#: Plugins of other distributions cost more than these tests.
LIGHT = ("-p", "no:hypothesispytest", "-p", "no:xdist")

LEAKS = """
    import os
    def test_leaks():
        os.environ["LEFT_BEHIND"] = "1"
    def test_comes_after():
        assert "LEFT_BEHIND" not in os.environ
"""


@pytest.fixture(autouse=True)
def _nothing_left(monkeypatch):
    # set first, so that the end of the test takes away what its inner tests left
    monkeypatch.setenv("LEFT_BEHIND", "")
    monkeypatch.delenv("LEFT_BEHIND")


def test_what_leaks_is_an_error_and_the_next_test_does_not_suffer(pytester):
    result = run(pytester, LEAKS)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(
        ["*test_leaks left process-global state changed:", "*environment?'LEFT_BEHIND'?: unset -> '1'"]
    )


def test_it_is_off_unless_asked_for(pytester):
    result = run(pytester, LEAKS, ini="[pytest]\n")
    result.assert_outcomes(passed=1, failed=1)


def test_what_is_put_back_is_no_leak(pytester):
    result = run(
        pytester,
        """
        import os, random, warnings
        import pytest
        @pytest.fixture
        def changed():
            os.environ["LEFT_BEHIND"] = "1"
            yield
            del os.environ["LEFT_BEHIND"]
        def test_fixture(changed):
            pass
        def test_monkeypatch(monkeypatch, tmp_path):
            monkeypatch.setenv("LEFT_BEHIND", "1")
            monkeypatch.chdir(tmp_path)
        def test_uses_what_is_there_to_be_used():
            random.random()
            warnings.simplefilter("ignore")
        """,
    )
    result.assert_outcomes(passed=3)


def test_a_fixture_that_does_not_put_back_is_an_error(pytester):
    result = run(
        pytester,
        """
        import os
        import pytest
        @pytest.fixture
        def changed():
            os.environ["LEFT_BEHIND"] = "1"
        def test_fixture(changed):
            pass
        """,
    )
    result.assert_outcomes(passed=1, errors=1)


WIDE = """
    import os
    import pytest
    @pytest.fixture(scope="module")
    def wide():
        os.environ["LEFT_BEHIND"] = "module"
        yield
        {end}
    def test_first(wide):
        assert os.environ["LEFT_BEHIND"] == "module"
    def test_between(monkeypatch):
        assert os.environ["LEFT_BEHIND"] == "module"
        monkeypatch.setenv("ANOTHER", "1")
    def test_last(wide):
        pass
"""


def test_a_wider_fixture_may_change_state_while_it_lives(pytester):
    run(pytester, WIDE.format(end='del os.environ["LEFT_BEHIND"]')).assert_outcomes(passed=3)


def test_a_wider_fixture_has_to_put_it_back(pytester):
    result = run(pytester, WIDE.format(end="pass"))
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*test_last left process-global state changed:"])


def test_an_excused_test_is_not_an_error(pytester):
    result = run(
        pytester,
        """
        import os
        import pytest
        @pytest.mark.leaks_state("shows that it can")
        def test_leaks():
            os.environ["LEFT_BEHIND"] = "1"
        def test_comes_after():
            assert "LEFT_BEHIND" not in os.environ
        """,
    )
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize("marker", ["leaks_state", "leaks_state('')", "leaks_state(reason=' ')"])
def test_an_excuse_needs_a_reason(pytester, marker):
    result = run(pytester, f"import pytest\n@pytest.mark.{marker}\ndef test_excused(): pass\n")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*leaks_state needs a reason*"])


def test_a_teardown_that_fails_still_shows_the_leak(pytester):
    result = run(
        pytester,
        """
        import os
        import pytest
        @pytest.fixture
        def broken():
            yield
            raise OSError("teardown")
        def test_leaks(broken):
            os.environ["LEFT_BEHIND"] = "1"
        """,
    )
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*OSError: teardown*", "*environment?'LEFT_BEHIND'?: unset -> '1'"])


def test_a_state_of_the_projects_own_takes_part(pytester):
    result = run(
        pytester,
        """
        import pytest
        from harness.state import register_state, unregister_state
        LEVEL = [0]
        @pytest.fixture(scope="module", autouse=True)
        def registered():
            register_state("level", lambda: LEVEL[0], lambda wanted: LEVEL.__setitem__(0, wanted))
            yield
            unregister_state("level")
        def test_before():
            pass
        def test_leaks():
            LEVEL[0] = 3
        def test_comes_after():
            assert LEVEL == [0]
        """,
    )
    result.assert_outcomes(passed=3, errors=1)
    result.stdout.fnmatch_lines(["*level: 0 -> 3"])
