"""The examples' measuring, against a device that says what it is told."""

import argparse
import json
import sys
import types

import harness
import measure
import pytest
from stalloc import Stats

GIB = 1 << 30


class Device:
    """Stands for torch.cuda and for stalloc.stats at once."""

    def __init__(self):
        self.current = {"reserved": 0, "allocated": 0, "requested": 0}
        self.peak = dict(self.current)
        self.stats_now = Stats()
        self.fraction = None

    def use(self, **sizes):
        """Goes up to these sizes, and back to half of them."""
        for name, size in sizes.items():
            self.peak[name] = max(self.peak[name], size)
            self.current[name] = size // 2

    def memory_stats(self, device):
        stats = {f"{name}_bytes.all.peak": size for name, size in self.peak.items()}
        return {**stats, "num_alloc_retries": 0}

    def reset_peak_memory_stats(self, device):
        self.peak = dict(self.current)

    def synchronize(self, device):
        pass

    def get_device_name(self, device):
        return "Some GPU"

    def get_device_properties(self, device):
        return types.SimpleNamespace(total_memory=80 * GIB)

    def set_per_process_memory_fraction(self, fraction, device):
        self.fraction = fraction

    def stats(self, device):
        return self.stats_now

    def explain(self):
        return "where it is"


@pytest.fixture
def device(monkeypatch):
    device = Device()
    torch = types.SimpleNamespace(
        cuda=device,
        __version__="2.11.0",
        version=types.SimpleNamespace(cuda="13.0"),
        empty=lambda size: None,
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    return device


def recorder(device, *options):
    parser = argparse.ArgumentParser()
    harness.add_arguments(parser)
    args = parser.parse_args(["--allocator", "stalloc", *options])
    return measure.Recorder(args, types.SimpleNamespace(type="cuda"), device)


def run(device, *options, hits=(0, 90, 100)):
    """Three steps of different peaks after a set-up; the report."""
    record = recorder(device, *options)
    device.use(reserved=40, allocated=30, requested=20)
    device.stats_now = Stats(hits=5, misses=2, peak_reserved=40)
    record.setup_done()
    total = 5
    for step, (peak, more) in enumerate(zip((1000, 800, 600), hits)):
        record.begin()
        total += more
        device.use(reserved=peak, allocated=peak - 50, requested=peak - 100)
        device.stats_now = Stats(
            hits=total, misses=2 + step, plan_generation=step, peak_reserved=peak
        )
        record.end(step, "train" if step < 2 else "train+eval", 0.5, 64)
    return record.report(checksum="00")


def test_peaks_are_per_step_and_the_summary_is_their_largest(device):
    report = run(device)
    assert [step["peak_reserved"] for step in report["steps"]] == [1000, 800, 600]
    summary = report["summary"]
    assert summary["peak_reserved"] == 1000 and summary["peak_load"] == 900
    assert summary["fragmentation"] == pytest.approx(0.1)
    assert summary["steady_reserved"] == 600
    assert report["setup"]["peak_reserved"] == 40 and report["setup"]["hits"] == 5


def test_what_is_away_is_not_reserved(device):
    """Though PyTorch's statistics count all that lives."""
    record = recorder(device)
    device.use(reserved=1000, allocated=1000, requested=950)
    device.stats_now = Stats(peak_reserved=700)
    record.setup_done()
    assert record.report()["setup"]["peak_reserved"] == 700


def test_hits_are_counted_per_step_and_phase(device):
    report = run(device)
    assert [step["hits"] for step in report["steps"]] == [0, 90, 100]
    assert [step["misses"] for step in report["steps"]] == [0, 1, 1]
    assert report["summary"]["hits"] == 190
    assert report["summary"]["plan_generation"] == 2
    assert report["summary"]["phases"]["train+eval"] == {"steps": 1, "hits": 100, "misses": 1}


def test_report_is_written(device, tmp_path):
    path = tmp_path / "out.json"
    report = run(device, "--json", str(path))
    assert json.loads(path.read_text()) == report
    assert report["device"] == "Some GPU" and report["explain"] == "where it is"


def test_memory_cap(device):
    recorder(device, "--memory-cap", "20")
    assert device.fraction == 0.25
    recorder(device, "--memory-cap", "200")
    assert device.fraction == 1.0


def test_out_of_memory_in_the_set_up_still_gives_a_report(device):
    record = recorder(device)
    record.out_of_memory(-1, RuntimeError("CUDA out of memory. Tried\nmore"))
    report = record.report()
    assert report["out_of_memory"] == {"step": -1, "message": "CUDA out of memory. Tried"}
    assert report["summary"]["median_step_seconds"] is None


@pytest.mark.parametrize("boundary, marks", [("explicit", 2), ("optimizer", 0)])
def test_the_loop_marks_and_measures_every_step(device, boundary, marks):
    marked = []
    device.step = lambda: marked.append(len(record.steps))
    record = recorder(device, "--boundary", boundary)
    record.setup_done()
    loop = harness.Loop(record.args, record, device)
    assert loop.number == -1  # what fails now fails in the set-up
    for number, evaluation in enumerate((None, 0.25)):
        loop.begin()
        assert loop.number == number
        loss = types.SimpleNamespace(item=lambda: 0.5)
        loop.end(harness.Step(loss, 64, "train", evaluation))
    assert marked == list(range(marks))  # before its step was measured
    assert [step["items"] for step in record.steps] == [64, 64]
    assert [step.get("evaluation") for step in record.steps] == [None, 0.25]


def test_a_run_that_plain_allocations_served_is_not_stalloc_s():
    def stalloc(fallback):
        return types.SimpleNamespace(stats=lambda: types.SimpleNamespace(fallback=fallback))

    assert "fallen back" in measure.not_served(stalloc(3))
    assert not measure.not_served(stalloc(0)) and not measure.not_served(None)
