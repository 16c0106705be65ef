"""What must hold of the page: everything on it, nothing from elsewhere, text that cannot become markup."""

import html.parser
import json
import lzma
import re
from dataclasses import replace
from pathlib import Path

from harness.bench import comparison, page, store
from harness.receipts.record import Device, Receipt, Test
from harness.report.records import Record, Verdict
from harness.report.summary import Summary
from tests.unit.bench_documents import DEVICE, run
from tests.unit.bench_files import past_runs

CHECKS = {}
SECTIONS = ("changes", "kernels", "roofline", "history", "resources", "verification", "conditions")
RESOURCES = {
    "kernels._mxfp4_moe_kernels.gate_up": {"w4": {"sm_90": (168, 49152, 0), "sm_120": (160, 40960, 16)}},
    "kernels.merge_attn_states.merge": {"w1": {"sm_90": (40, 0, 0)}},
}


def check(function):
    CHECKS[function.__name__] = function
    return function


def compared(head=None):
    nights = past_runs(14)
    head = head or run("head.json", night=14, slower={"sparse_mla_decode": 0.06, "mxfp4_moe": -0.05})
    return comparison.of_files(nights[-1], head, nights), head, nights


def records(message="3 of 8 elements break"):
    names = [("merge_attn_states", Verdict.PASS), ("mega_moe", Verdict.FAIL)]
    return Summary(
        records=tuple(
            Record(
                contract=name, implementation="triton", check="oracle:out", verdict=verdict, examples=50, note=message
            )
            for name, verdict in names
        )
    )


def receipt(*failed):
    tests = [Test(id=name, outcome="failed", seconds=1.0, hardware=True, target="sm_90") for name in failed]
    passed = [Test(id=f"passed{place}", outcome="passed", seconds=1.0, hardware=True) for place in range(7)]
    return Receipt(
        started="2026-11-30T02:00:00+00:00", seconds=312.0, driver="580", versions={}, emulated="", commit="a" * 40,
        devices=(Device(name="NVIDIA H200", arch="sm_90", units=132),), dirty=(), paths=(), sources={}, moved=(),
        arguments=(), status=1 if failed else 0, profile="ci", tests=(*passed, *tests),
    )  # fmt: skip


def whole(message="3 of 8 elements break"):
    found, head, nights = compared()
    shown = {"resources": RESOURCES, "verified": [records(message)], "receipt": receipt(f"test_{message}")}
    return page.render(head, comparison=found, earlier=nights, **shown)


class Reader(html.parser.HTMLParser):
    """Collects tags, attributes and text, and complains of tags that do not close."""

    VOID = ("meta", "wbr", "br")

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.attributes, self.words = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return "".join(self.words)


@check
def all_of_it_is_there():
    read = Reader(whole())
    ids = [value for name, value in read.attributes if name == "id"]
    assert set(SECTIONS) <= set(ids)
    assert [value for name, value in read.attributes if name == "href"] == [f"#{name}" for name in SECTIONS]
    for words in ("1 slower", "2 faster", "3 same", "sparse_mla_decode[triton-num_rows=256,topk=1024-rot]", "▲ slower",
                  "spills 16 B", "168 · 48.0 KiB", "oracle:out FAIL", "790 TFLOP/s", "4270 GB/s"):  # fmt: skip
        assert words in read.text, words


@check
def nothing_comes_from_elsewhere():
    text = whole()
    read = Reader(text)
    assert not {"script", "link", "img", "iframe", "object"} & set(read.tags)
    assert not [value for name, value in read.attributes if name == "src"]
    assert not re.search(r"https?:|url\(|@import", text)


@check
def text_never_becomes_markup():
    evil = '<b onclick="x">&'
    found, head, nights = compared(run("head", night=14, refused=[{"name": evil, "reason": evil}], commit=evil))
    found = replace(found, notes=(evil,), head=evil)
    text = page.render(head, comparison=found, earlier=nights, resources={evil: {}}, verified=[records(evil)])
    assert "onclick" not in [name for name, _ in Reader(text).attributes]
    assert evil in Reader(text).text


@check
def a_refusal_is_said_first(folder):
    refused, head, _ = compared(run("head", night=14, dirty=True))
    text = Reader(page.render(head, comparison=refused)).text
    assert text.index("dirty tree") < text.index("What changed")
    assert "No verdict was made" in text
    page.write_comparison(folder / "c.json", refused)
    assert page.read_comparison(folder / "c.json") == refused


def recorded_run(folder):
    """A run of an H200, as it was stored."""
    file = folder / "run.json"
    file.write_bytes(lzma.decompress((Path(__file__).parent / "recordings" / "bench_run_h200.json.xz").read_bytes()))
    return store.read(file)


@check
def what_is_wrong_stands_first():
    text = Reader(whole()).text
    first = text[: text.index("What changed")]
    for words in ("1 slower", "1 check failed", "1 device test failed"):
        assert words in first, words
    untimed = run("head", night=14, refused=[{"name": "x", "reason": "y"}, {"name": "z", "reason": "y", "peer": True}])
    text = Reader(page.render(untimed, receipt=receipt())).text
    first = text[: text.index("What changed")]
    assert "1 not timed" in first
    assert "failed" not in first


@check
def what_changed_is_drawn_first_and_says_between_what():
    text = Reader(whole()).text
    history = text[text.index("3 workloads changed") : text.index("Medians of up to")]
    order = [history.index(word) for word in ("sparse_mla_decode ", "mxfp4_moe ", "merge_attn_states: 1 workload")]
    assert order == sorted(order)
    assert "sparse_mla_decode: " not in history
    assert re.search(r"18\d µs to 199 µs since 2026-11-01", history)


@check
def resources_begin_with_the_target_that_was_timed():
    for arch, second in (("sm_120", "sm_90"), ("sm_90", "sm_120")):
        head = run("head", night=14, device={**DEVICE, "arch": arch})
        text = Reader(page.render(head, resources=RESOURCES)).text
        assert text.index(arch, text.index("configurations")) < text.index(second, text.index("configurations"))
    assert "40 · 0" in text


@check
def tests_on_the_device_are_named_where_they_failed():
    names = [f"test_{place:02d}" for place in range(25)]
    text = Reader(page.render(run("head", night=0), receipt=receipt(*names))).text
    assert text.index("25 failed") < text.index("7 passed")
    assert "Tests on NVIDIA H200" in text
    assert names[19] in text
    assert names[20] not in text
    assert "and 5 more" in text


@check
def peers_stand_beside_what_is_ours():
    head = run("head", night=14)
    assert "peers take" not in Reader(page.render(head)).text
    rows = head.document["benchmarks"]
    beside = json.loads(json.dumps(rows[0]))
    beside["extra_info"] |= {"implementation": "stock-x", "peer": True}
    beside["stats"]["median"] *= 4
    read = Reader(page.render(run("head", night=14, rows=[*rows, beside])))
    assert "peers take" in read.text
    assert "4.0 x stock-x" in read.text
    # told from ours by its mark as well
    marks = [value for name, value in read.attributes if name == "class" and re.match(r"k\d", value or "")]
    assert [mark.endswith(" outlined") for mark in marks].count(True) == 1
    assert len(marks) == len(rows) + 1 + 5
    assert "outlines are peers'" in read.text


@check
def a_recorded_run_is_shown_whole(folder):
    head = recorded_run(folder)
    read = Reader(page.render(head, comparison=comparison.of_files(head, head, allow_dirty=True)))
    workloads = {key[:3] for key in head.entries}
    assert (len(head.entries), len(workloads)) == (153, 51)
    # a mark for each workload and one for each contract of the legend, a course for each benchmark
    marks = [value for name, value in read.attributes if name == "class" and re.fullmatch(r"k\d", value or "")]
    assert len(marks) == 51 + 5
    assert read.tags.count("figure") == 153 + 1
    assert "are one run" in read.text
    assert "software power cap" in read.text


@check
def a_page_of_little_says_what_is_missing():
    text = Reader(page.render(run("head", night=0))).text
    for words in ("not compared with anything", "No baseline of the targets lane", "No records of a verification"):
        assert words in text
