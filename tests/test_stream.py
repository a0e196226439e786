"""Blocks from files, fitting on a sample, and a folder of partitions that survives interrupts."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
import zarr

from unpermute import PMSDR, stream
from unpermute._progress import on_progress
from unpermute.baselines import MRUC, RobustPCA
from unpermute.datasets import make_permuted_subspaces
from unpermute.stream._open import open_source
from unpermute.stream._work import lots_of

N, M = 1000, 20


@pytest.fixture(scope="module")
def data():
    return make_permuted_subspaces(2, N // 2, M, 2, outlier_ratio=0.3, random_state=0)


@pytest.fixture(scope="module")
def model(data):
    return PMSDR(2, 2, random_state=0).fit(data.X[::4])


def _to_parquet(X, folder, row_group_size=300):
    """Two files, cut elsewhere than the blocks."""
    folder.mkdir()
    table = pa.table({f"x{j}": X[:, j] for j in range(X.shape[1])})
    pq.write_table(table.slice(0, 700), folder / "a.parquet", row_group_size=row_group_size)
    pq.write_table(table.slice(700), folder / "b.parquet", row_group_size=row_group_size)
    return folder


def _make(kind, X, tmp_path):
    if kind == "array":
        return X
    if kind in ("npy", "memmap", "fortran"):
        path = tmp_path / "X.npy"
        np.save(path, np.asfortranarray(X) if kind == "fortran" else X)
        return np.load(path, mmap_mode="r") if kind == "memmap" else path
    if kind == "zarr":
        zarr.save_array(str(tmp_path / "X.zarr"), X)
        return tmp_path / "X.zarr"
    folder = _to_parquet(X, tmp_path / "X")
    return pyarrow.dataset.dataset(folder) if kind == "arrow" else str(folder)


KINDS = ["array", "npy", "memmap", "fortran", "zarr", "parquet", "arrow"]


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_are_the_matrix(kind, data, tmp_path):
    source = _make(kind, data.X, tmp_path)
    blocks = stream.read_blocks(source, block_size=256)
    assert (blocks.n_vectors, blocks.n_features) == data.X.shape
    parts = dict(blocks)
    assert list(parts) == [0, 256, 512, 768]
    assert all(part.flags.writeable and part.dtype == np.float64 for part in parts.values())
    np.testing.assert_array_equal(np.concatenate(list(parts.values())), data.X)


@pytest.mark.parametrize("kind", KINDS)
def test_ranges_are_read_in_any_order_and_after_pickling(kind, data, tmp_path):
    source = open_source(_make(kind, data.X, tmp_path))
    source.read(100, 150)
    size = len(pickle.dumps(source))
    assert kind == "array" or size < 5000
    for start, stop in [(900, 1000), (0, 50), (60, 80), (690, 710), (80, 400), (299, 301)]:
        opened = pickle.loads(pickle.dumps(source))
        np.testing.assert_array_equal(source.read(start, stop), data.X[start:stop])
        np.testing.assert_array_equal(opened.read(start, stop), data.X[start:stop])


def test_columns_are_chosen_by_name_or_position(data, tmp_path):
    X = data.X
    folder = _to_parquet(X, tmp_path / "X")
    [(_, block)] = stream.read_blocks(folder, columns=["x3", "x0"])
    np.testing.assert_array_equal(block, X[:, [3, 0]])
    [(_, block)] = stream.read_blocks(X, columns=[3, 0])
    np.testing.assert_array_equal(block, X[:, [3, 0]])


def test_parquet_holds_integers_and_gaps(tmp_path):
    table = pa.table({"a": [1, None, 2**60], "b": [True, False, None], "c": [1.5, None, 3.0]})
    pq.write_table(table, tmp_path / "a.parquet")
    [(_, block)] = stream.read_blocks(tmp_path / "a.parquet")
    np.testing.assert_array_equal(block, [[1, 1, 1.5], [np.nan, 0, np.nan], [2.0**60, np.nan, 3]])


def test_lots_belong_to_vectors_not_to_blocks():
    whole = lots_of(7, 0, 50)
    for size in (1, 3, 4, 17):
        pieces = [lots_of(7, start, min(size, 50 - start)) for start in range(0, 50, size)]
        np.testing.assert_array_equal(np.concatenate(pieces), whole)


def test_fit_does_not_depend_on_blocks(data, tmp_path):
    options = dict(max_vectors=300, random_state=3)
    expected = stream.fit(PMSDR(2, 2, random_state=0), data.X, **options)
    source = _make("parquet", data.X, tmp_path)
    for block_size in (100, 333):
        found = stream.fit(PMSDR(2, 2, random_state=0), source, block_size=block_size, **options)
        np.testing.assert_array_equal(found.bases_, expected.bases_)
        np.testing.assert_array_equal(found.permutations_, expected.permutations_)
        assert list(found.feature_names_in_) == [f"x{j}" for j in range(M)]


def test_fit_on_everything_is_the_models_own(data):
    expected = PMSDR(2, 2, random_state=0).fit(data.X)
    found = stream.fit(PMSDR(2, 2, random_state=0), data.X, block_size=300)
    np.testing.assert_array_equal(found.permutations_, expected.permutations_)


def test_small_subspace_is_found_by_looking_again(monkeypatch):
    data = make_permuted_subspaces(3, [4000, 4000, 30], M, 2, outlier_ratio=0.2, random_state=1)
    order = np.random.default_rng(0).permutation(len(data.X))
    X = data.X[order]
    # Of 30 vectors, a sample of 400 has one or two.
    rare = X[(data.labels == 2)[order] & ~data.outlier_mask[order]]
    options = dict(max_vectors=400, random_state=0)
    model = stream.fit(PMSDR(3, 2, random_state=0), X, **options)
    assert np.all(model.decision_function(rare) > 0)
    monkeypatch.setattr("unpermute.stream._fit._fit_again", lambda *_: None)
    model = stream.fit(PMSDR(3, 2, random_state=0), X, **options)
    assert not np.all(model.decision_function(rare) > 0)


@pytest.mark.parametrize("kind", ["npy", "zarr", "parquet"])
def test_transform_writes_what_the_model_says(kind, data, model, tmp_path):
    source = _make(kind, data.X, tmp_path)
    folder = stream.transform(model, source, tmp_path / "out", block_size=256)
    parts = list(stream.read_results(folder))
    assert [part.start for part in parts] == [0, 256, 512, 768]
    X = np.concatenate([part.X for part in parts])
    orders = np.concatenate([part.permutations for part in parts])
    status = np.concatenate([part.status for part in parts])
    np.testing.assert_array_equal(X, model.transform(data.X))
    np.testing.assert_array_equal(np.take_along_axis(data.X, orders, axis=1), X)
    np.testing.assert_array_equal(
        np.concatenate([part.labels for part in parts]), model.predict(data.X)
    )
    np.testing.assert_array_equal(status == "clean", model.decision_function(data.X) >= 0)
    certain = np.concatenate([part.confidence for part in parts]) >= model.min_confidence
    np.testing.assert_array_equal(status == "uncertain", ~certain)


def test_parquet_goes_to_parquet_that_others_read(data, model, tmp_path):
    source = _make("parquet", data.X, tmp_path)
    folder = stream.transform(model, source, tmp_path / "out", block_size=500)
    table = pq.read_table(sorted(folder.glob("*.parquet")))
    assert table.column_names[: M + 1] == [*(f"x{j}" for j in range(M)), "unpermute_labels"]
    # The folder is a source in its turn.
    [(_, block)] = stream.read_blocks(folder, columns=["x1"])
    np.testing.assert_array_equal(block[:, 0], model.transform(data.X)[:, 1])


def test_columns_follow_their_names(data, tmp_path):
    X = data.X
    model = stream.fit(PMSDR(2, 2, random_state=0), _make("parquet", X, tmp_path), max_vectors=300)
    other = pa.table({"id": [f"n{k}" for k in range(N)], **{f"x{j}": X[:, j] for j in range(M)}})
    mixed = other.select(["id", *sorted(f"x{j}" for j in range(M))])
    pq.write_table(mixed, tmp_path / "mixed.parquet")
    folder = stream.transform(model, tmp_path / "mixed.parquet", tmp_path / "out")
    [part] = stream.read_results(folder)
    expected = [X[k] for k in np.flatnonzero(part.status == "clean")]
    np.testing.assert_array_equal(part.X[part.status == "clean"], expected)


def test_other_estimators_write_their_vectors(data, tmp_path):
    model = RobustPCA().fit(data.X[:100])
    folder = stream.transform(model, data.X[:150], tmp_path / "out")
    [part] = stream.read_results(folder)
    np.testing.assert_allclose(part.X, model.transform(data.X[:150]))
    assert part.labels is None


def test_interrupted_run_goes_on_where_it_was(data, model, tmp_path):
    folder = tmp_path / "out"

    def interrupt(stage, done, total):
        if stage == "transform" and done == 300:
            raise KeyboardInterrupt

    with on_progress(interrupt), pytest.raises(KeyboardInterrupt):
        stream.transform(model, data.X, folder, block_size=100)
    with pytest.raises(ValueError, match="lacks 7 of 10 partitions; run transform again"):
        stream.read_results(folder)
    (folder / ".part-00003.npz.0123.aside").write_text("left by a writer that was killed")
    times = {path.name: path.stat().st_mtime_ns for path in folder.glob("part-*")}
    assert len(times) == 3
    steps = []
    with on_progress(lambda stage, done, total: steps.append(done) if stage[0] == "t" else None):
        stream.transform(model, data.X, folder, block_size=100)
    assert steps == list(range(400, 1001, 100))
    for name, time in times.items():
        assert (folder / name).stat().st_mtime_ns == time
    X = np.concatenate([part.X for part in stream.read_results(folder)])
    np.testing.assert_array_equal(X, model.transform(data.X))
    names = {path.name for path in folder.iterdir()}
    assert names == {"manifest.json", *(f"part-{k:05d}.npz" for k in range(10))}


def test_failed_write_leaves_nothing(data, model, tmp_path, monkeypatch):
    def half(file, **arrays):
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez", half)
    with pytest.raises(KeyboardInterrupt):
        stream.transform(model, data.X, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["manifest.json"]


def test_runs_are_not_mixed(data, model, tmp_path):
    folder = tmp_path / "out"
    stream.transform(model, data.X, folder, block_size=500)
    stream.transform(model, data.X, folder, block_size=500)
    stream.transform(
        PMSDR(2, 2, random_state=0, n_jobs=2).fit(data.X[::4]), data.X, folder, block_size=500
    )
    with pytest.raises(FileExistsError, match="holds results of another block_size; give another"):
        stream.transform(model, data.X, folder, block_size=400)
    with pytest.raises(FileExistsError, match="another source;"):
        stream.transform(model, data.X[::-1], folder, block_size=500)
    other = PMSDR(2, 2, random_state=1).fit(data.X[::3])
    with pytest.raises(FileExistsError, match="another model;"):
        stream.transform(other, data.X, folder, block_size=500)
    stream.transform(other, data.X, folder, block_size=400, overwrite=True)
    assert len(list(stream.read_results(folder))) == 3
    assert json.loads((folder / "manifest.json").read_text())["block_size"] == 400


def test_changed_file_is_another_source(data, model, tmp_path):
    path = _make("npy", data.X, tmp_path)
    stream.transform(model, path, tmp_path / "out")
    np.save(path, data.X[:900])
    with pytest.raises(FileExistsError, match="another source"):
        stream.transform(model, path, tmp_path / "out")


def _bad_sources(tmp_path):
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    np.save(tmp_path / "text.npy", np.array([["a", "b"]]))
    pq.write_table(pa.table({"id": ["a"], "x": [1.0]}), tmp_path / "text.parquet")
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    data_set = pyarrow.dataset.dataset(tmp_path / "text.parquet")
    return [
        (tmp_path / "none.npy", {}, "does not exist; it must be a .npy file"),
        (tmp_path / "table.csv", {}, "is of no known kind"),
        (tmp_path / "cube.npy", {}, r"one vector per row, but has shape \(2, 2, 2\)"),
        (tmp_path / "text.npy", {}, "must hold real numbers"),
        (tmp_path / "text.parquet", {}, "column 'id' of .* holds string, not numbers; name the"),
        (tmp_path / "text.parquet", {"columns": ["y"]}, "'y' must occur exactly once"),
        (data_set.filter(pa.compute.field("x") > 0), {"columns": ["x"]}, "source is filtered"),
        (pyarrow.dataset.dataset(pa.table({"a": [1.0]})), {}, "a data set of Parquet files"),
        ([[1.0, 2.0]], {}, "source has type list; it must be a .npy file"),
        (np.zeros((3, 2)), {"columns": [5]}, "must lie between 0 and 1"),
        (np.zeros((3, 2)), {"columns": ["a"]}, "this source has no names"),
        (np.zeros((3, 2)), {"block_size": 0}, "block_size=0 must be a whole number, at least 1"),
    ]


@pytest.mark.parametrize("case", range(12))
def test_bad_sources_are_refused_in_a_sentence(case, tmp_path):
    source, options, message = _bad_sources(tmp_path)[case]
    with pytest.raises((ValueError, TypeError, OSError), match=message):
        stream.read_blocks(source, **options)


def test_bad_models_are_refused_in_a_sentence(data, model, tmp_path):
    output = tmp_path / "out"
    with pytest.raises(ValueError, match="not fitted yet"):
        stream.transform(PMSDR(), data.X, output)
    with pytest.raises(TypeError, match="MRUC has no transform"):
        stream.transform(MRUC(), data.X, output)
    with pytest.raises(ValueError, match="source has 19 columns, but the model was fitted on 20"):
        stream.transform(model, data.X[:, 1:], output)
    assert not output.exists()
    with pytest.raises(ValueError, match="contamination=10 counts vectors, but"):
        stream.fit(PMSDR(2, 2, contamination=10), data.X, max_vectors=100)
    with pytest.raises(ValueError, match="max_vectors=1 must be a whole number, at least 2"):
        stream.fit(PMSDR(2, 2), data.X, max_vectors=1)
    with pytest.raises(ValueError, match="source holds no vectors to learn from"):
        stream.fit(PMSDR(2, 2), data.X[:0])


def test_bad_vectors_are_named(data, model, tmp_path):
    X = data.X.copy()
    X[650, 3] = np.inf
    with pytest.raises(ValueError, match=r"vectors 600 to 699 of the source .* infinity"):
        stream.transform(model, X, tmp_path / "out", block_size=100)


def test_bad_outputs_are_refused_in_a_sentence(data, model, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(FileExistsError, match="holds other files; give a new or an empty folder"):
        stream.transform(model, data.X, tmp_path / "mine", overwrite=True)
    with pytest.raises(NotADirectoryError, match="must be a folder, but is a file"):
        stream.transform(model, data.X, tmp_path / "mine" / "thesis.txt")
    with pytest.raises(FileNotFoundError, match="nothing was written there yet"):
        stream.read_results(tmp_path / "nowhere")


def test_missing_package_is_named_with_its_extra(data, tmp_path, monkeypatch):
    source = _make("zarr", data.X, tmp_path)
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ImportError, match=r"package zarr: pip install 'unpermute\[dask\]'"):
        stream.read_blocks(source)


def test_optional_packages_load_only_when_needed():
    code = (
        "import sys, sklearn.base; before = set(sys.modules)\n"
        "import unpermute.stream, unpermute.distributed\n"
        "loaded = set(sys.modules) - before\n"
        "print(sorted({'dask', 'distributed', 'zarr', 'pyarrow'} & loaded))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout == "[]\n", result.stderr
