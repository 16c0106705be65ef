"""Faults planted in isolation: the pool, its workers and what they share with pytest; one change of source each."""

from tests.teeth.rooms import RoomFault


def fault(name, file, old, new, check):
    return RoomFault(name, "hardware", file, old, new, check)


FAULTS = (
    fault(
        "a dead worker's next test is skipped",
        "pool",
        "self._waiting.appendleft(chunk)",
        "self._waiting.appendleft(chunk)\n"
        "            if len(chunk) > 1:\n                self._tell(chunk.pop().nodeid, Outcome())",
        "every_test_has_an_outcome_though_workers_die",
    ),
    fault(
        "a late worker is waited for",
        "pool",
        "self._tell(self._given[worker].nodeid, outcome)",
        'self._tell(self._given[worker].nodeid, outcome if worker in ready else Outcome(verdict="CRASH"))',
        "every_test_has_an_outcome_though_workers_die",
    ),
    fault(
        "a module's fixtures are torn down after each test",
        "pool",
        "following = chunk[0].nodeid if chunk else None",
        "following = None",
        "a_worker_is_told_what_follows_in_it",
    ),
    fault(
        "chunks run on into the next module",
        "pool",
        "together[-1][-1].module == test.module and",
        "",
        "a_worker_is_told_what_follows_in_it",
    ),
    fault(
        "a test that must be alone starts beside others",
        "pool",
        "if busy and self._waiting[0][0].alone:",
        "if busy and not self._waiting:",
        "a_test_alone_has_the_machine",
    ),
    fault(
        "tests that are alone come in between",
        "pool",
        "return long + together + alone",
        "return [*together[:1], *alone, *together[1:]]",
        "a_test_alone_has_the_machine",
    ),
    fault(
        "workers that cannot start are started again",
        "pool",
        "FAILED_STARTS = 2",
        "FAILED_STARTS = 3",
        "workers_that_cannot_start_are_given_up",
    ),
    fault(
        "one worker that cannot start is the end",
        "pool",
        "FAILED_STARTS = 2",
        "FAILED_STARTS = 1",
        "a_worker_that_does_not_start_costs_no_test",
    ),
    fault(
        "the first test of a worker that does not start is lost",
        "pool",
        "self._left[worker].appendleft(self._given[worker])",
        "self._tell(self._given[worker].nodeid, outcome)",
        "a_worker_that_does_not_start_costs_no_test",
    ),
    fault(
        "failed starts count though others came between",
        "pool",
        "self._failed_starts.clear()",
        "self._failed_starts.copy()",
        "a_worker_that_does_not_start_costs_no_test",
    ),
    fault(
        "after failed starts those that are there stop too",
        "pool",
        "if any(worker.task is not None for worker in self._left):\n                self._listen()",
        "if len(self._failed_starts) < FAILED_STARTS:\n                self._listen()",
        "a_worker_that_does_not_start_costs_no_test",
    ),
    fault(
        "one worker takes a whole module",
        "pool",
        "len(together[-1]) < size",
        "size",
        "long_modules_go_to_several_workers",
    ),
    fault(
        "long tests wait for the others",
        "pool",
        "return long + together + alone",
        "return together + long + alone",
        "long_tests_come_first_and_apart",
    ),
    fault(
        "long tests share a worker",
        "pool",
        "elif test.deadline > LONG:",
        "elif not test.deadline:",
        "long_tests_come_first_and_apart",
    ),
    fault(
        "workers share temporary files",
        "_worker",
        'config.option.basetemp = os.path.join(shared, f"worker-{os.getpid()}")',
        "config.option.basetemp = shared",
        "a_worker_has_temporary_files_of_its_own",
    ),
    fault(
        "a folder is given to a worker that shares none",
        "_worker",
        "        if shared:\n",
        '        if shared := shared or "":\n            pass\n        if True:\n',
        "a_worker_has_temporary_files_of_its_own",
    ),
    fault(
        "the first test of the parent empties the workers' folders",
        "isolation",
        "        folders.getbasetemp()\n",
        "        pass\n",
        "the_parent_makes_the_folder_that_workers_share",
    ),
    fault(
        "a worker notes which tests failed last",
        "_worker",
        '"lfplugin", "nfplugin", "stepwiseplugin")',
        '"nfplugin", "stepwiseplugin")',
        "a_worker_keeps_nothing_for_the_next_run",
    ),
    fault(
        "what a test started is left alone once its worker is gone",
        "worker",
        "os.killpg(self._process.pid, signal.SIGKILL)",
        "os.kill(self._process.pid, 0)",
        "nothing_that_a_test_started_outlives_its_worker",
    ),
    fault(
        "the first error counts as sticky",
        "probe",
        "    except Exception:\n        try:\n            torch.cuda.synchronize()\n"
        "        except Exception as error:\n            return first_line(error)\n",
        "    except Exception as error:\n        return first_line(error)\n",
        "an_error_is_sticky_if_it_comes_again",
    ),
    fault(
        "no error is sticky",
        "probe",
        "            return first_line(error)\n",
        "            del error\n",
        "an_error_is_sticky_if_it_comes_again",
    ),
    fault(
        "every CUDA error is one of memory",
        "probe",
        '_CUDA_OUT_OF_MEMORY = "CUDA error: out of memory"',
        '_CUDA_OUT_OF_MEMORY = "CUDA error"',
        "exhausted_memory_is_told_from_other_errors",
    ),
)
