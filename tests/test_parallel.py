"""Blocks on threads: in order, the same for any number of threads, and stopped by an error."""

import threading
import time

import pytest

from unpermute._progress import on_progress
from unpermute.numerics.parallel import map_blocks


@pytest.mark.parametrize("n_jobs", [None, 1, 2, 5, -1])
def test_results_and_progress_come_in_order(n_jobs):
    seen = []

    def work(start, stop):
        time.sleep(0.001 * (10 - start))  # the first take longest
        return list(range(start, stop))

    with on_progress(lambda *step: seen.append(step)):
        parts = map_blocks(work, 10, block=4, stage="count", n_jobs=n_jobs)
    assert parts == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert seen == [("count", 4, 10), ("count", 8, 10), ("count", 10, 10)]


def test_threads_run_side_by_side():
    meeting = threading.Barrier(2, timeout=10)
    places = map_blocks(lambda start, stop: meeting.wait(), 2, block=1, stage="meet", n_jobs=2)
    assert sorted(places) == [0, 1]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_ends_it(n_jobs):
    begun = []

    def work(start, stop):
        begun.append(start)
        if start == 0:
            raise ZeroDivisionError
        time.sleep(0.02)

    with pytest.raises(ZeroDivisionError):
        map_blocks(work, 100, block=1, stage="fail", n_jobs=n_jobs)
    assert len(begun) < 50


def test_nothing_to_do():
    assert map_blocks(lambda start, stop: 1 / 0, 0, block=8, stage="none", n_jobs=2) == []
