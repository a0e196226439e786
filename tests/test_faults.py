"""The command in odd places: damaged files, closed streams, signals, limits, nowhere to write."""

import ctypes
import fcntl
import io
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import unpermute
from unpermute import _kernel_cache
from unpermute.cli._app import app
from unpermute.files import Moves, OutputFiles, TableError, read_table

CSV = b"x,y\n" + b"".join(b"%d,%d\n" % (i, 100 + i) for i in range(30))
CHANGES = b"row,column,old,new,moved_from\n0,x,0,100,y\n0,y,100,0,x\n"


def _npy(array=None, **replaced):
    sink = io.BytesIO()
    np.save(sink, np.arange(12.0).reshape(4, 3) if array is None else array)
    raw = sink.getvalue()
    for old, new in replaced.values():
        assert old in raw
        raw = raw.replace(old, new)
    return raw


DAMAGED = {
    "header.npy": (_npy(shape=(b"(4, 3)", b"(4, (3")), "is not a NumPy file"),
    "negative.npy": (_npy(shape=(b"(4, 3), }", b"(-4, 3),}")), "is not a NumPy file"),
    "huge.npy": (_npy(shape=(b"(4, 3), }   ", b"(4000, 3), }")), "is cut off"),
    "zip.npy": (b"PK\x03\x04" + _npy()[4:], "is not a NumPy file"),
    "no_columns.npy": (_npy(np.zeros((5, 0))), "has no columns"),
    "no_rows.npy": (_npy(np.zeros((0, 5))), "has no rows"),
    "objects.npy": (_npy(np.array([["a", None]], dtype=object)), "one matrix of numbers"),
    "deep.jsonl": (
        b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n" + b'{"a": 1}\n',
        "line 1: nested too deeply",
    ),
    "value.jsonl": (b'{"a": 1}\n{"a": "\\ud800"}\n', "line 2: half of a character"),
    "key.jsonl": (b'{"\\udc80": 1}\n{"a": 1}\n', "line 1: half of a character"),
    "list.jsonl": (b'{"a": 1}\n[1, 2]\n', "line 2: not an object"),
}


def _run(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)), prog_name="unpermute")
    assert result.exit_code != 70, result.stderr
    return result


def _shell(*arguments, **options):
    command = [sys.executable, "-m", "unpermute", *map(str, arguments)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    return subprocess.run(command, check=False, **options)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(CSV)
    return path


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_one_sentence(tmp_path, name):
    content, said = DAMAGED[name]
    path = tmp_path / name
    path.write_bytes(content)
    result = _run("scan", path)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_matrix_that_python_2_has_written_is_read(tmp_path, recwarn):
    path = tmp_path / "old.npy"
    raw = _npy(shape=(b"(4, 3), }  ", b"(4L, 3L), }"))
    path.write_bytes(raw)
    source = read_table(str(path))
    assert source.frame.shape == (4, 3)
    exchange = Moves(*map(np.array, ([0, 0], [0, 1], [0, 0], [1, 0])))
    moved = b"".join(source.with_moves(exchange))
    assert moved[:-96] == raw[:-96]
    assert np.frombuffer(moved[-96:])[:3].tolist() == [1, 0, 2]
    assert not recwarn


@pytest.mark.parametrize("encoding", ["rot13", "hex", "zlib", "base64", "klingon", "a\0b"])
def test_only_encodings_of_text_are_encodings(table, encoding):
    result = _run("scan", table, "--encoding", encoding)
    assert result.exit_code == 2
    assert "is not the name of an encoding of text" in result.stderr


@pytest.mark.parametrize("field", ["row", "moved_from"])
def test_a_row_number_of_thousands_of_digits_is_refused(table, tmp_path, field):
    change = {"row": "0", "column": "x", "old": "0", "new": "1", "moved_from": "1"}
    change[field] = "9" * 5000
    changes = tmp_path / "changes.csv"
    changes.write_text(",".join(change) + "\n" + ",".join(change.values()) + "\n")
    result = _run("apply", table, changes)
    assert result.exit_code == 2
    assert "has no row 999999999999999999…; its rows are 0 to 29" in result.stderr
    assert len(result.stderr) < 300


@pytest.mark.parametrize("command", [["scan", "t.csv"], ["paper"]])
def test_no_jobs_are_refused(command):
    result = _run(*command, "--jobs", 0)
    assert result.exit_code == 2
    assert "0 is not allowed" in result.stderr


# Arrow: what polars reads and pyarrow does not


def _arrow(path, nullable=True):
    schema = pa.schema([pa.field("a", pa.int64(), nullable), pa.field("b", pa.int64())])
    batch = pa.table({"a": [1, 2], "b": [3, None]}, schema=schema)
    with pa.ipc.new_file(path, schema) as writer:
        writer.write_table(batch)


def test_a_file_that_ends_polars_does_not_end_us(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    pl.DataFrame({"a": [1, 2], "b": [3, 4]}).write_parquet(path)
    monkeypatch.setattr("unpermute.files._arrow.find_spec", lambda name: None)
    assert read_table(str(path)).frame.shape == (2, 2)
    with pytest.raises(TableError, match="is not a complete Parquet file"):
        read_table(str(Path(__file__).parent / "corpus" / "page-header.parquet"))
    # What a damaged file makes of the process that reads it.
    script = tmp_path / "polars.py"
    script.write_text("import os\ndef read_parquet(file):\n    file.read()\n    os.abort()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(TableError, match="is not a complete Parquet file"):
        read_table(str(path))


def test_an_arrow_file_that_pyarrow_cannot_read_is_named(tmp_path, monkeypatch):
    path = str(tmp_path / "t.arrow")
    _arrow(path)

    def fail(source):
        raise OSError("Expected to read 8 bytes\nmore of it")

    monkeypatch.setattr(pa.ipc, "open_file", fail)
    with pytest.raises(
        TableError, match=r"is not a complete Arrow file: Expected to read 8 bytes\.$"
    ):
        read_table(path)


def test_what_cannot_be_written_is_told_apart_from_what_cannot_be_read(tmp_path, monkeypatch):
    path = str(tmp_path / "t.arrow")
    _arrow(path)
    source = read_table(path)

    def fail(sink, schema):
        raise pa.ArrowNotImplementedError("no such type")

    monkeypatch.setattr(pa.ipc, "new_file", fail)
    exchange = Moves(*map(np.array, ([0, 0], [0, 1], [0, 0], [1, 0])))
    with pytest.raises(TableError, match="cannot be written with these values moved: no such type"):
        list(source.with_moves(exchange))


# Streams


def test_a_closed_input_is_refused():
    result = _shell("scan", "-", preexec_fn=lambda: os.close(0))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("standard input is closed")


@pytest.mark.parametrize("closed", [[1], [0, 1]])
def test_a_closed_output_is_refused(table, closed):
    result = _shell("scan", table, preexec_fn=lambda: [os.close(k) for k in closed])
    assert result.returncode == 2
    assert result.stderr == "unpermute cannot write its output: standard output is closed.\n"


def test_a_closed_error_stream_gets_no_file_of_ours(table, tmp_path):
    changes, output = tmp_path / "c.csv", tmp_path / "o.csv"
    changes.write_bytes(CHANGES)
    result = _shell("apply", table, changes, "-o", output, preexec_fn=lambda: os.close(2))
    assert result.returncode == 0
    assert output.read_bytes() == CSV.replace(b"0,100\n", b"100,0\n", 1)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["scan", "t.csv"], ["apply", "t.csv", "c.csv", "-o", "-"]]
)
def test_a_reader_that_goes_away_ends_it_silently(table, tmp_path, arguments):
    (tmp_path / "c.csv").write_bytes(CHANGES)
    reading, writing = os.pipe()
    os.close(reading)
    result = _shell(*arguments, stdout=writing, cwd=tmp_path)
    os.close(writing)
    assert (result.returncode, result.stderr) == (0, "")


# Signals and limits

_SIGNALLED = """
import os, signal
from unpermute.cli import main
from unpermute.files import _csv

def pieces(self, moves):
    yield b"half of the table"
    os.kill(os.getpid(), signal.{name})
    yield b"the other half"

_csv.CsvTable.with_moves = pieces
main()
"""


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130), ("SIGKILL", -9)])
def test_a_signal_leaves_no_half_a_file(table, tmp_path, name, code):
    (tmp_path / "c.csv").write_bytes(CHANGES)
    arguments = ["apply", "t.csv", "c.csv", "-o", "o.csv"]
    script = _SIGNALLED.format(name=name)
    command = [sys.executable, "-c", script, *arguments]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert (result.returncode, result.stderr) == (code, b"")
    left = {path.name for path in tmp_path.iterdir()} - {"t.csv", "c.csv"}
    if name != "SIGKILL":
        assert not left
        return
    # What a killed run leaves, the next one removes.
    assert len(left) == 1
    assert not (tmp_path / "o.csv").exists()
    assert _run("apply", table, tmp_path / "c.csv", "-o", tmp_path / "o.csv").exit_code == 0
    assert {path.name for path in tmp_path.iterdir()} == {"t.csv", "c.csv", "o.csv"}


# Where an exception of a signal's handler would be lost, printed, or taken for another one.
_PLACES = {
    "import": """
import sys
class Finder:
    def find_spec(self, name, *_):
        if name == "unpermute.cli._app":
            os.kill(os.getpid(), number)
sys.meta_path.insert(0, Finder())
""",
    "finalizer": """
class Dying:
    def __del__(self):
        os.kill(os.getpid(), number)
from unpermute.cli import _app
_app.app = lambda **_: Dying()
""",
    "callback": """
import functools
from unpermute.cli import _app
def compare(a, b):
    os.kill(os.getpid(), number)
    return 0
def app(**_):
    try:
        sorted([1, 2], key=functools.cmp_to_key(compare))
    except BaseException as error:
        raise SystemError("compiled code returned with an exception set") from error
_app.app = app
""",
}


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
@pytest.mark.parametrize("place", _PLACES)
def test_a_signal_ends_it_silently_wherever_it_arrives(name, code, place):
    begin = f"import os, signal\nnumber = signal.{name}\nfrom unpermute.cli import main\n"
    script = f"{begin}{_PLACES[place]}main()\nos._exit(99)"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (result.returncode, result.stderr) == (code, b"")


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_is_no_lack_of_memory(tmp_path, name, code):
    """Under a limit of memory the work is done by a child, which must hear of signals."""
    resource = pytest.importorskip("resource")
    limit = 2**40
    command = [sys.executable, "-m", "unpermute", "scan", "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    ) as process:  # fmt: skip
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not (child := children.read_text()):
            time.sleep(0.01)
        process.send_signal(getattr(signal, name))
        assert process.wait() == code
        assert process.stderr.read() == b""
        assert not Path(f"/proc/{child.strip()}").exists()


def test_a_signal_that_is_ignored_stays_ignored(table):
    """A shell starts what it runs in the background so, and nohup does it for SIGHUP."""
    script = "import os, signal; from unpermute.cli import _app, main\n"
    script += "_app.app = lambda **_: os.kill(os.getpid(), signal.SIGINT)\nmain()"
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, b"")


def test_what_another_process_still_writes_is_not_removed(tmp_path):
    theirs, other = tmp_path / ".o.csv.0123456789ab.part", tmp_path / ".o.csv.notes.part"
    other.write_bytes(b"not ours")
    with open(theirs, "wb") as file, OutputFiles(force=True) as files:
        fcntl.flock(file, fcntl.LOCK_EX)
        files.write(str(tmp_path / "o.csv"), [b"x"])
        files.commit()
        assert theirs.exists()
    with OutputFiles(force=True) as files:
        files.write(str(tmp_path / "o.csv"), [b"y"])
        files.commit()
    assert {path.name for path in tmp_path.iterdir()} == {"o.csv", ".o.csv.notes.part"}
    assert (tmp_path / "o.csv").read_bytes() == b"y"


def test_a_name_of_many_bytes_can_be_written(tmp_path):
    """A name has at most 255 bytes, and so has that of the file which is written first."""
    path = tmp_path / ("日" * 83 + ".csv")
    with OutputFiles(force=False) as files:
        files.write(str(path), [b"x"])
        files.commit()
    assert [child.name for child in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("size", [1, 100, 5000])
def test_a_disk_that_fills_up_leaves_no_half_a_file(tmp_path, size):
    """A file of which the last bytes cannot be written, in whatever buffer they are."""
    script = (
        "import resource, signal; from unpermute.files import OutputFiles, TableError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50))\n"
        "with OutputFiles(force=False) as files:\n"
        f"    try: files.write('o.csv', [b'x' * {size}] * 3); files.commit(); print('written')\n"
        "    except TableError as error: print(error)\n"
    )
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.stderr == ""
    left = [path.name for path in tmp_path.iterdir()]
    if size == 1:
        assert (result.stdout, left) == ("written\n", ["o.csv"])
    else:
        assert (result.stdout, left) == ("o.csv cannot be written: File too large.\n", [])


@pytest.mark.parametrize("megabytes", [150, 600])
def test_a_limit_of_memory_is_named(table, megabytes):
    resource = pytest.importorskip("resource")
    limit = megabytes * 2**20
    result = _shell(
        "scan", table, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
    assert "not enough memory" in result.stderr


def test_a_limit_that_suffices_changes_nothing(table, tmp_path):
    resource = pytest.importorskip("resource")
    (tmp_path / "c.csv").write_bytes(CHANGES.replace(b"100", b"7"))
    limit = 2**40
    results = [
        _shell("apply", "t.csv", "c.csv", cwd=tmp_path, preexec_fn=before)
        for before in (
            None,
            lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        )
    ]
    assert results[0].returncode == results[1].returncode == 2
    assert results[0].stderr == results[1].stderr
    assert "should hold '7'" in results[0].stderr


# Nowhere to write


@pytest.fixture
def no_place(monkeypatch, tmp_path):
    """Neither the sources nor the home can be written to."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(_kernel_cache, "_is_writable", lambda folder: False)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(sys.modules["numba"].config, "CACHE_DIR", "")
    return tmp_path


def test_kernels_are_kept_among_temporary_files(no_place, caplog, monkeypatch):
    caplog.set_level(logging.INFO, "unpermute")
    _kernel_cache.ensure_kernel_cache()
    [folder] = no_place.iterdir()
    assert os.environ["NUMBA_CACHE_DIR"] == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(caplog.records) == 1
    monkeypatch.delenv("NUMBA_CACHE_DIR")


def test_a_folder_that_others_can_write_to_is_not_trusted(no_place, caplog, monkeypatch):
    called = []
    monkeypatch.setattr(_kernel_cache, "_compile_every_time", lambda: called.append(True))
    folder = no_place / f"unpermute-kernels-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    _kernel_cache.ensure_kernel_cache()
    assert "NUMBA_CACHE_DIR" not in os.environ
    assert called
    assert "compiled every time" in caplog.text


def _obey_permissions():
    """Let even root, in the program that comes next, write only where permissions allow it."""
    drop, override = 24, 1  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE
    if os.getuid() == 0 and ctypes.CDLL(None).prctl(drop, override, 0, 0, 0):
        raise OSError("permissions cannot be enforced here")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="permissions as on Linux")
@pytest.mark.parametrize("temporary", [True, False], ids=["temporary", "nowhere"])
def test_a_read_only_installation_without_a_home_works(tmp_path, temporary):
    source, site = Path(unpermute.__file__).parent, tmp_path / "site"
    shutil.copytree(source, site / "unpermute", ignore=shutil.ignore_patterns("__pycache__"))
    place = tmp_path / "tmp"
    place.mkdir()
    for folder in (tmp_path, site, *site.rglob("*")):
        folder.chmod(0o555)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA", "XDG", "PYTEST"))}
    env |= {"HOME": str(tmp_path / "home"), "PYTHONPATH": str(site)}
    code = (
        f"import tempfile; tempfile.tempdir = {str(place if temporary else site)!r};"
        "import unpermute;"
        f"assert unpermute.__file__.startswith({str(site)!r});"
        "import numpy as np; from unpermute.files._csv_kernels import find_records;"
        "print(find_records(np.frombuffer(b'a,b', dtype=np.uint8), 0, 44)[1][0])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], env=env, cwd="/", capture_output=True, text=True,
        check=False, preexec_fn=_obey_permissions,
    )  # fmt: skip
    for folder in (tmp_path, site, *site.rglob("*")):
        folder.chmod(0o755)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "2\n"
    assert ("compiled every time" in result.stderr) == (not temporary)
    assert bool(list(place.rglob("*.nbc"))) == temporary
