"""The paper's experiments: all there, saved as they go, resumed, and shown on one page."""

import csv
import os
import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from unpermute import __version__
from unpermute.cli._app import app
from unpermute.experiments import _registry, motion
from unpermute.experiments._experiment import (
    Experiment,
    Measurement,
    Outcome,
    Record,
    format_setting,
    parse_setting,
)
from unpermute.experiments._figures import line_panels
from unpermute.experiments._methods import (
    ALONE,
    DEFAULT,
    NOTHING_GIVEN,
    PAPER,
    SUBSPACE,
    Draw,
    default_method,
    paper_method,
    score_nothing_given,
    score_pipeline,
    score_true_bases,
)
from unpermute.experiments._page import draw_figure, write_page
from unpermute.experiments._records import append_records, collect, read_records, write_records
from unpermute.experiments._run import (
    read_arrays,
    read_failures,
    run_experiment,
    write_conditions,
)
from unpermute.experiments._tables import beside, count_harmed, ours_first
from unpermute.experiments.synthetic_grid import draw_synthetic

ASKED = [
    *("single-subspace", "synthetic-grid", "rank-impact", "subspace-count", "comparison", "mruc"),
    *("time", "faces", "faces-gallery", "motion", "motion-comparison", "reidentification"),
    *("theory-gaussian", "theory-trace", "theory-variance", "theory-probability"),
]

NOTHING_IS_GIVEN = [
    *("single-subspace", "synthetic-grid", "rank-impact", "subspace-count", "comparison"),
    *("faces", "faces-gallery", "motion", "motion-comparison", "reidentification"),
]

needs_data = pytest.mark.skipif(
    not os.environ.get("UNPERMUTE_DATA"), reason="UNPERMUTE_DATA does not name the data folder"
)


class Toy:
    """An experiment that counts its runs, and fails or stops where it is told to."""

    def __init__(self, fails=(), stops=()):
        self.runs, self.fails, self.stops = [], set(fails), set(stops)

    def run(self, setting, seed, data_home):
        size = setting["size"]
        if size in self.stops:
            raise KeyboardInterrupt
        if size in self.fails:
            raise ValueError(f"size {size}\nis too much")
        self.runs.append((size, seed))
        measured = [Measurement(name, "error", size / 10 + seed, 0.5) for name in (DEFAULT, PAPER)]
        return Outcome(measured, {f"array{size}": np.full(2, size)})

    @property
    def experiment(self):
        return Experiment(
            name="toy",
            title="A toy",
            protocol="Sizes <are> given.",
            settings=lambda quick: [{"size": n} for n in ((1,) if quick else (1, 2, 3))],
            n_seeds=lambda quick: 2,
            run=self.run,
            tables=lambda records: [beside(["size"], _rows(records), [DEFAULT, PAPER])],
            figure=lambda records, arrays: line_panels({"": _lines(records)}, x="size", y="error"),
            quick="one size of three.",
        )


def _lines(records):
    return {m: collect(records, m, "error", lambda s: s["size"]) for m in (DEFAULT, PAPER)}


def _rows(records):
    lines = _lines(records)
    return [((size,), {m: line[size] for m, line in lines.items()}) for size in lines[DEFAULT]]


def run(toy, folder, **options):
    return run_experiment(toy.experiment, folder, n_jobs=1, **options)


def test_every_experiment_that_was_asked_for_is_registered():
    assert list(_registry.NAMES) == ASKED


@pytest.mark.parametrize("name", ASKED)
def test_experiments_are_complete(name):
    experiment = _registry.load(name)
    assert experiment.name == name
    assert experiment.title
    assert experiment.protocol.endswith(".")
    assert experiment.quick.endswith(".")
    for quick in (True, False):
        texts = [format_setting(setting) for setting in experiment.settings(quick)]
        assert len(set(texts)) == len(texts) > 0
        assert [parse_setting(text) for text in texts] == experiment.settings(quick)
        assert experiment.n_seeds(quick) >= 1
    few, all_of_them = experiment.settings(True), experiment.settings(False)
    assert len(few) * experiment.n_seeds(True) <= len(all_of_them) * experiment.n_seeds(False)


def test_motion_runs_all_sequences_with_two_and_three_motions():
    counts = list(motion.sequences().values())
    assert (counts.count(2), counts.count(3), len(counts)) == (120, 35, 155)


def test_unknown_experiment_is_refused():
    with pytest.raises(ValueError, match=r"no experiment 'motions'; there are single-subspace,"):
        _registry.load("motions")


def test_csv_has_a_line_per_fit(tmp_path):
    assert run(Toy(), tmp_path) == []
    with (tmp_path / "toy.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["setting", "method", "seed", "seconds", "version", "error"]
    assert len(rows) == 3 * 2 * 2
    assert {row["version"] for row in rows} == {__version__}
    assert float(rows[0]["error"]) == 0.1
    assert read_records(tmp_path / "toy.csv")[0].parsed == {"size": 1}


def test_metrics_of_a_fit_share_a_line_and_new_ones_get_a_column(tmp_path):
    path = tmp_path / "toy.csv"
    first = Record("size=1", DEFAULT, 0, "error", 1 / 3, 0.5, __version__)
    records = [
        first,
        first._replace(metric="SCerr", value=float("nan")),
        first._replace(metric="RE_gt", seconds=0.1),
        first._replace(seed=1),
        first._replace(seed=1, metric="time", value=1e-12),
    ]
    write_records(path, records[:1])
    append_records(path, records[1:3])
    append_records(path, records[3:])
    assert path.read_text().splitlines() == [
        "setting,method,seed,seconds,version,error,SCerr,RE_gt,time",
        f"size=1,{DEFAULT},0,0.5,{__version__},0.33333333,nan,,",
        f"size=1,{DEFAULT},0,0.1,{__version__},,,0.33333333,",
        f"size=1,{DEFAULT},1,0.5,{__version__},0.33333333,,,1e-12",
    ]
    read = read_records(path)
    assert [r._replace(value=0) for r in read] == [r._replace(value=0) for r in records]
    np.testing.assert_allclose([r.value for r in read], [r.value for r in records], rtol=1e-7)


def test_a_failing_setting_is_reported_and_the_others_go_on(tmp_path):
    toy = Toy(fails=[2])
    failures = run(toy, tmp_path)
    assert [(f.setting, f.seed) for f in failures] == [("size=2", 0), ("size=2", 1)]
    assert re.search(r"ValueError: size 2 is too much \(test_paper.py:\d+\)", failures[0].message)
    assert failures == read_failures(tmp_path, "toy")
    assert toy.runs == [(1, 0), (1, 1), (3, 0), (3, 1)]
    toy.fails, toy.runs = set(), []
    assert run(toy, tmp_path, resume=True) == []
    assert toy.runs == [(2, 0), (2, 1)]
    assert read_failures(tmp_path, "toy") == []


def test_an_interrupted_run_resumes_with_what_is_missing(tmp_path):
    toy = Toy(stops=[3])
    with pytest.raises(KeyboardInterrupt):
        run(toy, tmp_path)
    finished = read_records(tmp_path / "toy.csv")
    assert len(finished) == 2 * 2 * 2
    toy.stops, toy.runs = set(), []
    run(toy, tmp_path, resume=True)
    assert toy.runs == [(3, 0), (3, 1)]
    records = read_records(tmp_path / "toy.csv")
    assert records[: len(finished)] == finished
    assert len(records) == 3 * 2 * 2
    assert sorted(read_arrays(tmp_path, "toy")) == ["array1", "array2", "array3"]


def test_without_resume_everything_runs_again(tmp_path):
    toy = Toy()
    run(toy, tmp_path)
    run(toy, tmp_path)
    assert len(toy.runs) == 2 * 6
    assert len(read_records(tmp_path / "toy.csv")) == 12


def test_a_quick_run_is_a_part_of_the_full_one(tmp_path):
    toy = Toy()
    run(toy, tmp_path, quick=True)
    run(toy, tmp_path, resume=True)
    assert len(toy.runs) == len(set(toy.runs)) == 6


def test_a_line_cut_short_takes_its_draw_with_it(tmp_path):
    path = tmp_path / "toy.csv"
    record = Record("size=1", DEFAULT, 0, "error", 0.5, 1.0, __version__)
    write_records(path, [record])
    append_records(path, [record._replace(seed=1), record._replace(seed=1, method=PAPER)])
    path.write_text(path.read_text()[:-20])
    assert read_records(path) == [record]


def test_figures_of_another_version_are_measured_again(tmp_path):
    toy = Toy()
    run(toy, tmp_path, quick=True)
    path = tmp_path / "toy.csv"
    write_records(path, [record._replace(version="0.0") for record in read_records(path)])
    run(toy, tmp_path, quick=True, resume=True)
    assert len(toy.runs) == 4
    assert {record.version for record in read_records(path)} == {__version__}


class Split(Toy):
    """An experiment whose settings say which methods run."""

    @property
    def experiment(self):
        settings = [{"size": n, "methods": name} for name in ("pmsdr", "others") for n in (1, 2)]
        return replace(super().experiment, settings=lambda quick: settings)


def test_some_methods_run_again_and_the_others_are_kept(tmp_path):
    toy, path = Split(), tmp_path / "toy.csv"
    run(toy, tmp_path)
    write_records(path, [record._replace(version="0.0") for record in read_records(path)])
    before, toy.runs = read_records(path), []
    run(toy, tmp_path, methods=["pmsdr"])
    assert toy.runs == [(1, 0), (1, 1), (2, 0), (2, 1)]
    records = read_records(path)
    assert len(records) == len(before)
    assert {r.version for r in records if r.parsed["methods"] == "pmsdr"} == {__version__}
    assert [r for r in records if r.parsed["methods"] == "others"] == before[len(before) // 2 :]
    assert sorted(read_arrays(tmp_path, "toy")) == ["array1", "array2"]


def test_some_methods_resume_with_what_is_missing(tmp_path):
    toy = Split(stops=[2])
    with pytest.raises(KeyboardInterrupt):
        run(toy, tmp_path, methods=["pmsdr"])
    toy.stops, toy.runs = set(), []
    run(toy, tmp_path, methods=["pmsdr"], resume=True)
    assert toy.runs == [(2, 0), (2, 1)]


@pytest.mark.parametrize(
    ("toy", "words"),
    [(Split(), "there are pmsdr, others."), (Toy(), "all of its methods run together.")],
)
def test_unknown_methods_are_refused_before_anything_is_lost(tmp_path, toy, words):
    run(toy, tmp_path)
    before = (tmp_path / "toy.csv").read_bytes()
    with pytest.raises(ValueError, match=f"toy has no methods 'pmsd'; {words}"):
        run(toy, tmp_path, methods=["pmsd"])
    assert (tmp_path / "toy.csv").read_bytes() == before


@pytest.mark.parametrize("name", NOTHING_IS_GIVEN)
def test_nothing_given_alone_can_be_shown(name):
    experiment = _registry.load(name)
    settings = [s for s in experiment.settings(True) if s["methods"] == "nothing-given"]
    assert settings
    metrics = ("RE_recon", "RE_refined", "RE_whole", "CE_recon", "error", "mean relative error")
    records = [
        Record(format_setting(setting), NOTHING_GIVEN, 0, metric, 0.125, 1.0, __version__)
        for setting in settings
        for metric in metrics
    ]
    shown = [cell for table in experiment.tables(records) for row in table.rows for cell in row]
    assert "0.125" in shown
    experiment.figure(records, {})


def test_page_shows_tables_figures_and_failures(tmp_path):
    toy = Toy(fails=[2])
    run(toy, tmp_path)
    write_conditions(tmp_path, quick=False)
    draw_figure(toy.experiment, tmp_path)
    page = write_page([toy.experiment], tmp_path).read_text(encoding="utf-8")
    for words in (
        'href="toy.csv"',
        'src="toy.png"',
        'href="toy.svg"',
        "Sizes &lt;are&gt; given.",
        "4 of 6 draws",
        "size 2 is too much",
        '<td class="ours">0.600</td>',
    ):
        assert words in page
    assert "one size of three" not in page
    first = (tmp_path / "toy.svg").read_bytes()
    draw_figure(toy.experiment, tmp_path)
    assert (tmp_path / "toy.svg").read_bytes() == first


def test_setting_must_be_words():
    with pytest.raises(ValueError, match="must not hold spaces"):
        format_setting({"method": "two words"})


def test_both_methods_recover_easy_data():
    draw = draw_synthetic(2, 2, 0.2, 0, n_vectors_per_subspace=30, n_features=20)
    given = 2, 2, int(draw.outlier_mask.sum()), 0
    found = [
        *score_pipeline(DEFAULT, default_method(*given), draw, rank=2),
        *score_pipeline(PAPER, paper_method(*given), draw, rank=2),
        *score_true_bases(DEFAULT, draw, exact=True),
        *score_true_bases(PAPER, draw),
    ]
    values = {(m.method, m.metric): m.value for m in found}
    assert values[DEFAULT, "RE_recon"] < 0.05
    assert values[SUBSPACE, "RE_recon"] < 0.05
    assert values[DEFAULT, "RE_whole"] < values[DEFAULT, "RE_recon"]
    assert (
        max(values[DEFAULT, m] for m in ("UOratio", "SCerr", "CE_recon", "CE_gt")) < 0.06
    )  # one of 18
    assert {metric for method, metric in values if method == PAPER} >= {"RE_refined", "RE_gt"}


def test_nothing_given_is_measured_beside_the_matrix_left_alone():
    draw = draw_synthetic(2, 3, 0.4, 0, n_vectors_per_subspace=60, n_features=40)
    found = score_nothing_given(draw, 0, rank=3)
    values = {(m.method, m.metric): m.value for m in found}
    assert max(values[NOTHING_GIVEN, m] for m in ("UOratio", "SCerr", "CE_recon")) < 0.06
    assert values[NOTHING_GIVEN, "components"] == 2
    for metric in ("RE_recon", "RE_whole", "RE_refined"):
        assert values[NOTHING_GIVEN, metric] < 0.2 * values[ALONE, metric]
    error = np.linalg.norm(draw.X - draw.X_clean) / np.linalg.norm(draw.X_clean)
    assert values[ALONE, "RE_whole"] == pytest.approx(error)


@pytest.mark.parametrize(
    ("components", "wrong"),
    [
        ([0, 0, 1, 2, 0, 1], (0.0, 0.0)),  # two components of one subspace
        ([0, 0, 0, 1, 0, 1], (0.25, 0.0)),
        ([0, 0, 1, 1, 1, 2], (0.0, 1.0)),  # the last has no clean vector
    ],
)
def test_a_component_stands_for_the_subspace_of_most_of_its_clean_vectors(
    monkeypatch, components, wrong
):
    class Model:
        def __init__(self, random_state):
            self.outlier_mask_ = np.array([False] * 4 + [True] * 2)
            self.labels_, self.n_subspaces_ = np.array(components), max(components) + 1

        def fit_transform(self, X):
            return X

    monkeypatch.setattr("unpermute.experiments._methods.PMSDR", Model)
    mask, labels = Model(0).outlier_mask_, np.array([0, 0, 1, 1, 0, 1])
    draw = Draw(np.ones((6, 3)), np.ones((6, 3)), labels, mask, [])
    values = {m.metric: m.value for m in score_nothing_given(draw, 0) if m.method != ALONE}
    assert (values["SCerr"], values["CE_recon"]) == wrong


def test_draws_that_were_harmed_are_counted():
    left = Record("size=1 methods=nothing-given", ALONE, 0, "error", 0.5, 0.0, __version__)
    other = left._replace(setting="size=1 methods=pmsdr", method=DEFAULT, value=0.6)
    records = [left, left._replace(seed=1), other, other._replace(seed=1, value=0.5)]
    records.append(other._replace(seed=2))  # not known how it stands
    table = count_harmed(records, (DEFAULT, PAPER), "error", lambda s: s["size"])
    assert table.rows == [[DEFAULT, "2", "1"], [PAPER, "0", "0"]]


def test_our_methods_come_first():
    record = Record("size=1", "RPCA", 0, "error", 0.5, 0.0, __version__)
    names = ("RPCA", PAPER, ALONE, NOTHING_GIVEN, DEFAULT)
    records = [record._replace(method=name) for name in names]
    assert ours_first(records) == [DEFAULT, NOTHING_GIVEN, PAPER, "RPCA", ALONE]


def _invoke(*arguments):
    env = {"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200", "GITHUB_ACTIONS": None}
    return CliRunner().invoke(app, ["paper", *arguments], prog_name="unpermute", env=env)


def test_command_runs_two_experiments_end_to_end(tmp_path, monkeypatch):
    names = ["theory-trace", "theory-probability"]
    for name in names:
        experiment = _registry.load(name)
        small = [{"n_features": 20, "rank": 3, "n_shuffled": 8}]
        monkeypatch.setitem(vars(experiment), "settings", lambda quick, small=small: small)
    result = _invoke(*names, "--quick", "--jobs", "1", "-o", str(tmp_path))
    assert result.exit_code == 0, result.output
    for name in names:
        assert {path.suffix for path in tmp_path.glob(f"{name}.*")} >= {".csv", ".png", ".svg"}
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page.count("<section") == 2
    assert "Theory: trace and powers of a corner" in page
    before = (tmp_path / "theory-trace.csv").read_bytes()
    result = _invoke("theory-trace", "--quick", "--jobs", "1", "-o", str(tmp_path), "--resume")
    assert result.exit_code == 0
    assert (tmp_path / "theory-trace.csv").read_bytes() == before


def test_command_runs_some_methods_again(tmp_path):
    result = _invoke("--methods", "pmsdr", "-o", str(tmp_path))
    assert result.exit_code == 2
    assert "--methods needs the names of the experiments" in result.stderr
    result = _invoke("time", "--methods", "pmsdr", "-o", str(tmp_path))
    assert result.exit_code == 2
    assert "time has no methods 'pmsdr'; all of its methods run together." in result.stderr
    result = _invoke("motion", "time", "--methods", "pmsdr", "-o", str(tmp_path))
    assert result.exit_code == 2
    assert not list(tmp_path.iterdir())


def test_command_says_what_is_missing(tmp_path):
    result = _invoke("motion", "faces", "--data", str(tmp_path), "-o", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert "motion is left out: There is no Hopkins155 in the folder" in result.stderr
    assert "faces is left out: There is no yaleb/yaleb_48x42.npz" in result.stderr
    result = _invoke("motoin", "-o", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "There is no experiment 'motoin'" in result.stderr


@needs_data
def test_motion_draws_follow_the_protocol():
    draw = motion.draw_sequence("head", 0)
    assert draw.X.shape == (99, 120)
    assert int(draw.outlier_mask.sum()) == 39
    np.testing.assert_array_equal(np.sort(draw.X, axis=1), np.sort(draw.X_clean, axis=1))
    moved = (draw.X_clean != draw.X).sum(axis=1)
    assert moved.max() <= 48
