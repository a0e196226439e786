"""The gate of the benchmarks: what became slow is named, and what became better is recorded."""

import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def gate(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, "gate", raising=False)
    import gate

    return gate


def _unit():
    """A stub of the reference: some milliseconds of the same kind."""
    rng = np.random.default_rng(0)
    for _ in range(4):
        np.linalg.svd(rng.normal(size=(60, 60)))
        np.sort(rng.normal(size=30_000))


def _twice():
    _unit()
    _unit()


def test_a_workload_that_became_twice_as_slow_is_named(gate, capsys, monkeypatch, tmp_path):
    workloads = {"as it was": lambda: _unit, "slowed": lambda: _twice, "new": lambda: _unit}
    (tmp_path / "gate.json").write_text('{"as it was": 1.0, "slowed": 1.0}')
    monkeypatch.setattr(gate, "RECORDS", tmp_path / "gate.json")
    monkeypatch.setattr(gate, "WORKLOADS", workloads)
    monkeypatch.setattr(gate.run_twice, "__defaults__", (_unit,))
    monkeypatch.setattr(sys, "argv", ["gate.py"])
    with pytest.raises(SystemExit, match=r"Too slow, more than 1\.5 times the record: slowed\."):
        gate.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if "TOO SLOW" in line] == ["slowed"] * 2


def test_what_became_better_is_recorded_and_nothing_else(gate):
    records = {"faster": 2.0, "slower": 2.0}
    measured = {name: gate.Measured(ratio, 0.1) for name, ratio in
                {"faster": 1.0, "slower": 3.0, "new": 5.0}.items()}  # fmt: skip
    assert gate.better(records, measured) == {"faster": 1.0, "slower": 2.0, "new": 5.0}
    assert [gate.is_too_slow(each, records.get(name)) for name, each in measured.items()] == [
        False, False, False,
    ]  # fmt: skip
    assert gate.is_too_slow(gate.Measured(3.01, 0.1), 2.0)


def test_counts_do_not_depend_on_the_machine(gate):
    work = gate.WORKLOADS["recover, lsrf"]()
    counts = [gate.measure(work, None, _unit).counts for _ in range(2)]
    assert counts[0] == counts[1] == {"recover": 1000, "match": 1000, "certify": 1000}
