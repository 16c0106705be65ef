"""Faults planted in benchmarks and comparisons: one change of source each."""

from tests.teeth.planted import Planted


class BenchFault(Planted):
    """In ``harness/bench/FILE.py``, ``old``, which stands there once, becomes ``new``; ``check`` must fail."""


RULES = (
    BenchFault(
        "the correction for many workloads is dropped",
        "numbers",
        "scaled = np.take_along_axis(p, order, axis=-1) * np.arange(count, 0, -1)",
        "scaled = np.take_along_axis(p, order, axis=-1) * np.ones(count)",
        "claims_at_the_margin_itself_are_as_rare_as_promised",
    ),
    BenchFault(
        "the correction forgets the steps",
        "numbers",
        "np.minimum(np.maximum.accumulate(scaled, axis=-1), 1.0)",
        "np.minimum(scaled, 1.0)",
        "holm_steps_down",
    ),
    BenchFault(
        "the normal distribution in place of Student's",
        "numbers",
        "known = np.where(df > 0, df, 1.0)",
        "known = np.where(df > 0, df, 1.0) * 1e4",
        "students_t_is_the_tabulated_one",
    ),
    BenchFault(
        "an interval of a median one rank too narrow",
        "numbers",
        "lower = max(rank - 1, 0)",
        "lower = min(rank, count // 2)",
        "an_interval_of_a_median_covers_it",
    ),
    BenchFault(
        "the margin is not allowed for",
        "verdicts",
        "slower = student_sf((evidence.effect - away) / error, evidence.df)",
        "slower = student_sf(evidence.effect / error, evidence.df)",
        "claims_at_the_margin_itself_are_as_rare_as_promised",
    ),
    BenchFault(
        "same for want of evidence",
        "verdicts",
        "verdicts[p_same <= rules.alpha] = Verdict.SAME",
        "verdicts[p_change > rules.alpha] = Verdict.SAME",
        "same_takes_evidence",
    ),
    BenchFault(
        "same on one side is enough",
        "verdicts",
        "return holm(_known(np.maximum(below, above)))",
        "return holm(_known(np.minimum(below, above)))",
        "five_per_cent_are_found_or_doubted_and_never_same",
    ),
    BenchFault(
        "what is unknown is certain",
        "verdicts",
        "return np.where(np.isnan(p), 1.0, p)",
        "return np.where(np.isnan(p), 0.0, p)",
        "same_takes_evidence",
    ),
    BenchFault(
        "faster and slower change places",
        "verdicts",
        "verdicts[(p_change <= rules.alpha) & (evidence.effect > 0)] = Verdict.SLOWER",
        "verdicts[(p_change <= rules.alpha) & (evidence.effect < 0)] = Verdict.SLOWER",
        "directions_are_told_apart",
    ),
    BenchFault(
        "variance pooled over workloads",
        "series",
        "error = values.std(axis=-2, ddof=1) / np.sqrt(count)",
        "error = values.std(axis=-2, ddof=1).mean(axis=-1, keepdims=True) + 0 * values.mean(axis=-2)",
        "a_loud_workload_keeps_its_noise_to_itself",
    ),
    BenchFault(
        "every block counts as independent",
        "series",
        "df=np.full_like(error, count - 1.0)",
        "df=np.full_like(error, 4.0 * count - 1.0)",
        "a_block_counts_once",
    ),
    BenchFault(
        "A B A B in place of A B B A",
        "series",
        "signs = np.array(orders(quads), dtype=np.float64)[:, :, None] * 2 - 1",
        "signs = np.array([(0, 1, 0, 1)] * quads, dtype=np.float64)[:, :, None] * 2 - 1",
        "steady_drift_and_position_cancel",
    ),
    BenchFault(
        "every quad begins with the base",
        "series",
        "return [ORDERS[number % 2] for number in range(quads)]",
        "return [ORDERS[0] for number in range(quads)]",
        "steady_drift_and_position_cancel",
    ),
    BenchFault(
        "the effect counted twice",
        "series",
        "found = _mean((times * signs).sum(axis=-2) / 2)",
        "found = _mean((times * signs).sum(axis=-2))",
        "a_change_is_measured_as_large_as_it_is",
    ),
    BenchFault(
        "blocks stand for runs",
        "series",
        "doubt=float(np.log1p(rules.drift)))",
        "doubt=0.0)",
        "two_runs_without_history_are_doubted_by_the_drift",
    ),
    BenchFault(
        "the noise of history is halved",
        "series",
        "between, df = np.sqrt((steps**2).mean(axis=-2)),",
        "between, df = np.sqrt((steps**2).mean(axis=-2)) / 2,",
        "runs_differ_by_what_steps_of_history_say",
    ),
    BenchFault(
        "history is not looked at",
        "series",
        "larger = between >= within",
        "larger = between < 0",
        "runs_differ_by_what_steps_of_history_say",
    ),
    BenchFault(
        "a run's agreement with itself follows its drift",
        "series",
        "signs = np.array([1.0 if number % 2 == 0 else -1.0 for number in range(pairs)])[:, None]",
        "signs = np.ones((pairs, 1))",
        "a_run_that_differs_from_itself_shows",
    ),
)

MEASURING = (
    BenchFault(
        "a wrong result is timed",
        "gate",
        "        if trial.result.violations:\n",
        "        if execution is None and trial.result.violations:\n",
        "a_wrong_result_is_not_timed",
    ),
    BenchFault(
        "an adapter's kernel is ours",
        "peers",
        'return str(getattr(implementation.launch, "__module__", "")).startswith(_ADAPTERS)',
        "return False",
        "what_an_adapter_brings_is_a_peer",
    ),
    BenchFault(
        "the virtual GPU's first call is timed",
        "timings",
        "    take(1)\n",
        "",
        "the_first_call_of_a_process_is_not_timed",
    ),
    BenchFault(
        "an interrupt takes everything along",
        "run",
        "except (ContextLost, KeyboardInterrupt) as error:",
        "except ContextLost as error:",
        "what_was_timed_before_an_interrupt_is_kept",
    ),
    BenchFault(
        "what a contract raises ends the run",
        "measure",
        "        except Exception as error:\n            # whatever",
        "        except (MemoryError, RuntimeError) as error:\n            # whatever",
        "what_a_contract_or_a_launch_raises_costs_no_other_benchmark",
    ),
    BenchFault(
        "what a launch raises ends the run",
        "measure",
        "            except Exception as error:\n                # on the",
        "            except (MemoryError, RuntimeError) as error:\n                # on the",
        "what_a_contract_or_a_launch_raises_costs_no_other_benchmark",
    ),
    BenchFault(
        "what another process found wrong is timed",
        "measure",
        "found = {name: self.gates.refusal(title) for name, title in titles.items()}",
        "found = dict.fromkeys(titles)",
        "what_other_processes_found_decides",
    ),
    BenchFault(
        "what no process checked is right",
        "gates",
        "return self.found.get(title, self.otherwise)",
        "return self.found.get(title)",
        "what_other_processes_found_decides",
    ),
    BenchFault(
        "what had no memory is never checked",
        "measure",
        "if titles[one.name] in self.gates.again]",
        "if titles[one.name] not in self.gates.found and not titles]",
        "what_had_no_memory_beside_others_is_checked_alone",
    ),
    BenchFault(
        "the first of each share is left out",
        "gates",
        "itertools.islice(workloads, number, None, count)",
        "itertools.islice(workloads, number + 1, None, count)",
        "every_workload_is_in_one_share",
    ),
    BenchFault(
        "nothing is checked before it is timed",
        "measure",
        "found |= {one.name: gate.refusal(one) for one in here}",
        "found |= {one.name: None for one in here}",
        "a_wrong_result_is_not_timed",
    ),
    BenchFault(
        "the floor is the smaller",
        "rates",
        "return max(work.bytes / self.copy, work.flops / self.matmul)",
        "return min(work.bytes / self.copy, work.flops / self.matmul)",
        "a_floor_is_the_larger_of_moving_and_computing",
    ),
    BenchFault(
        "kernels for other hardware are timed",
        "run",
        "fits = here is None or unmet(implementation.requires.targets, here) is None",
        "fits = True",
        "what_needs_other_hardware_is_left_out_on_a_device_only",
    ),
)

#: In ``harness/copies.py``.
COPIES = (
    BenchFault(
        "copies share the first one's memory",
        "copies",
        "whole_storage(value).to(there, copy=True).untyped_storage()",
        "value.untyped_storage()",
        "copies_are_the_same_at_other_addresses",
    ),
    BenchFault(
        "copies forget where a view starts",
        "copies",
        "storages[address], value.storage_offset(), value.shape, value.stride()",
        "storages[address], 0, value.shape, value.stride()",
        "copies_are_the_same_at_other_addresses",
    ),
)

#: In ``harness/contracts/_work.py``.
WORK = (
    BenchFault(
        "experts there are always",
        "_work",
        "bytes=routed * nbytes(*weights) // max(1, experts)",
        "bytes=routed * nbytes(*weights) // experts",
        "every_case_that_the_virtual_gpu_times_has_its_work",
    ),
    BenchFault(
        "each slot's expert counts",
        "_work",
        "return valid.numel(), _distinct(valid)",
        "return valid.numel(), valid.numel()",
        "routed_experts_count_once_and_invalid_slots_not_at_all",
    ),
    BenchFault(
        "invalid slots are work",
        "_work",
        "valid = topk_ids[(topk_ids >= 0) & (topk_ids < num_experts)]",
        "valid = topk_ids[topk_ids >= 0]",
        "routed_experts_count_once_and_invalid_slots_not_at_all",
    ),
    BenchFault(
        "lanes past a length count",
        "_work",
        "        if length is not None:\n",
        "        if length is None and rows is None:\n",
        "tokens_of_attention_count_once_and_lanes_each_time",
    ),
    BenchFault(
        "a token counts for every lane",
        "_work",
        "tokens += _distinct(rows[counted])",
        "tokens += rows[counted].numel()",
        "tokens_of_attention_count_once_and_lanes_each_time",
    ),
    BenchFault(
        "whole pages count",
        "_work",
        "in_page = (lengths[:, None] - first[None, :]).clamp(0, _PAGE)",
        "in_page = (lengths[:, None] - first[None, :]).clamp(0, 1) * _PAGE",
        "logits_count_keys_that_are_there",
    ),
    BenchFault(
        "empty parts are read",
        "_work",
        "full = int((lses != -torch.inf).sum())",
        "full = lses.numel()",
        "empty_parts_are_not_read",
    ),
)
