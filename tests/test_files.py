"""Files of tables: what is read, what stays byte for byte, what is written and when nothing is."""

import codecs
import csv
import io
import os
import stat
import sys

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unpermute.files import CsvStyle, _arrow, _csv
from unpermute.files._csv import CsvTable
from unpermute.files._moves import Moves
from unpermute.files._read import check_output_format, file_format, read_table
from unpermute.files._source import TableError, check_columns
from unpermute.files._write import OutputFiles
from unpermute.table import scan

ODD = b'\xef\xbb\xbfid,"a ""x""",b\r\n001, 1.50 ,"N/A"\n\n"2\r\nz",007,"x,""y"\r3,=cmd,12"'


def _table(raw, **style):
    return CsvTable(raw, "t.csv", CsvStyle(**style))


def _moves(*cells):
    """Moves from tuples (row, column, row and column that the value comes from)."""
    return Moves(*np.array(cells, dtype=np.int64).reshape(-1, 4).T)


def _moved(table, *cells):
    return b"".join(table.with_moves(_moves(*cells)))


# Reading delimited text


def test_an_odd_file_is_read():
    table = _table(ODD)
    assert table.columns == ["id", 'a "x"', "b"]
    assert table.frame.rows() == [
        ("001", "1.50", None),
        ("2\r\nz", "007", 'x,"y'),
        ("3", "=cmd", '12"'),
    ]
    assert [table.line(row) for row in range(3)] == [2, 4, 6]
    assert table.texts(np.array([2, 0]), np.array([1, 1])) == ["=cmd", " 1.50 "]


def test_moved_cells_take_their_quotes_and_spaces_along():
    moved = _moved(_table(ODD), (0, 1, 1, 2), (1, 2, 0, 1))
    assert moved == ODD.replace(b" 1.50 ", b"!").replace(b'"x,""y"', b" 1.50 ").replace(
        b"!", b'"x,""y"'
    )


fields = st.one_of(
    st.sampled_from(["", "NA", "007", "1.50", "=cmd|' /C calc'!A0", " 3 ", '""', '"a""b"x', '5"']),
    st.text(st.characters(exclude_characters='",;\r\n\0\ufeff', exclude_categories=["Cs", "Cc"])),
    st.text(st.sampled_from('ab,;"\r\nä€')).map(lambda text: '"' + text.replace('"', '""') + '"'),
)
line_ends = st.sampled_from(["\n", "\r\n", "\r"])


@st.composite
def delimited(draw, min_columns=2):
    """A delimited file as lists of raw fields, and its text."""
    delimiter = draw(st.sampled_from([",", ";"]))
    n_columns = draw(st.integers(min_columns, 4))
    n_rows = draw(st.integers(1, 5))
    header = [f"c{k}" for k in range(n_columns)]
    records = [header] + [[draw(fields) for _ in header] for _ in range(n_rows)]
    text = draw(st.sampled_from(["", "\ufeff"]))
    for record in records:
        blank = "".join(draw(st.lists(line_ends, max_size=1)))
        text += blank + delimiter.join(record) + draw(line_ends)
    if draw(st.booleans()):
        text = text.rstrip("\r\n") if text.endswith(tuple("\r\n")) and records[-1][-1] else text
    return delimiter, records, text


@settings(max_examples=150)
@given(delimited())
def test_fields_are_those_of_the_csv_module(file):
    delimiter, _, text = file
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=delimiter)
    header, *rows = [record for record in reader if record]
    table = _table(text.encode(), delimiter=delimiter, na=())
    cells = np.indices((table.n_rows, len(header))).reshape(2, -1)
    assert table.columns == header
    assert table.texts(*cells) == [text for row in rows for text in row]
    shown = [tuple(text.strip(" \t\r\n") or None for text in row) for row in rows]
    assert table.frame.rows() == shown


@settings(max_examples=100)
@given(delimited(), st.data())
def test_only_the_moved_cells_differ(file, data):
    delimiter, records, text = file
    table = _table(text.encode(), delimiter=delimiter)
    row = data.draw(st.integers(0, table.n_rows - 1))
    order = data.draw(st.permutations(range(len(table.columns))))
    moved = _moved(table, *((row, k, row, origin) for k, origin in enumerate(order)))
    expected = [list(record) for record in records]
    expected[row + 1] = [records[row + 1][origin] for origin in order]
    before, after = (delimiter.join(some[row + 1]) for some in (records, expected))
    start = int(table._starts[row])
    assert moved[:start] == text.encode()[:start]
    assert moved[start:] == after.encode() + text.encode()[start + len(before.encode()) :]


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_pieces_fit_together_wherever_they_are_cut(monkeypatch, batch):
    rng = np.random.default_rng(0)
    rows = [[f"{rng.integers(10 ** rng.integers(1, 9))}" for _ in range(4)] for _ in range(30)]
    raw = "\n".join(",".join(row) for row in [list("abcd"), *rows]).encode()
    order = rng.permutation(30)
    moves = _moves(*((k, 2, origin, 2) for k, origin in enumerate(order)))
    whole = b"".join(_table(raw).with_moves(moves))
    frame = _table(raw).frame
    monkeypatch.setattr(_csv, "_BATCH", batch)
    assert b"".join(_table(raw).with_moves(moves)) == whole
    assert _table(raw).frame.equals(frame)
    assert _table(whole).frame["c"].to_list() == [rows[origin][2] for origin in order]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-be", "utf-32", "gbk"])
def test_encodings_survive(encoding):
    word = "价" if encoding == "gbk" else "ü"
    text = f"{word},b\r\n1,{word}2\r\n3,4\r\n"
    raw = text.encode(encoding)
    table = _table(raw, encoding=encoding)
    assert table.columns == [word, "b"]
    assert _moved(table) == raw
    moved = _moved(table, (0, 1, 1, 1), (1, 1, 0, 1))
    assert moved.decode(encoding) == f"{word},b\r\n1,4\r\n3,{word}2\r\n"


def test_the_order_of_bytes_survives():
    raw = codecs.BOM_UTF16_BE + "a,b\n1,2\n".encode("utf-16-be")
    table = _table(raw, encoding="utf-16")
    assert table.frame.rows() == [("1", "2")]
    assert _moved(table, (0, 0, 0, 1), (0, 1, 0, 0)) == raw.replace(b"1\0,\x002", b"2\0,\x001")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1.234,50", "1234.50"),
        ("-1,5e3", "-1.5e3"),
        ("+12.345.678", "+12345678"),
        (",5", ".5"),
        ("1234,5", "1234.5"),
        ("12.34.567", "12.34.567"),
        ("01.02.2024", "01.02.2024"),
        ("1,2,3", "1,2,3"),
        ("1,5e", "1,5e"),
        ("-", "-"),
        ("a,b", "a,b"),
    ],
)
def test_decimal_commas_become_points_in_numbers_only(text, shown):
    table = _table(f"a;b\n{text};1\n".encode(), decimal=",")
    assert table.frame.rows() == [(shown, "1")]
    assert table.texts(np.array([0]), np.array([0])) == [text]


def test_marks_that_are_given_are_the_last_word():
    raw = b'a;b\n1,234.5;"1,23"\n'
    assert _table(raw).frame.rows() == [("1234.5", "1.23")]
    assert _table(raw, decimal=".").frame.rows() == [("1,234.5", "1,23")]
    assert _table(raw, thousands=",").frame.rows() == [("1234.5", "1,23")]


def test_missing_texts_can_be_replaced():
    raw = b"a,b,c\nNA, -999 ,null\n"
    assert _table(raw).frame.rows() == [(None, "-999", None)]
    assert _table(raw, na=["-999"]).frame.rows() == [("NA", None, "null")]


@pytest.mark.parametrize(
    ("raw", "columns"),
    [
        (b"a;b;c\n1,5;2;3\n", 3),
        (b"a\tb\n1\t2\n", 2),
        (b"a|b\n1|2\n", 2),
        (b'a,b\n"x;y;z",1\n', 2),
        (b"a\n1\n", 1),
    ],
)
def test_the_delimiter_is_guessed(raw, columns):
    assert len(_table(raw).columns) == columns


def test_the_decimal_mark_is_guessed_last():
    raw = b"a,b;c,d\n1,5;2,5\n"
    assert len(_table(raw).columns) == 3
    assert len(_table(raw, decimal=",").columns) == 2
    assert len(_table(b'a,b\n"1,5","2,5"\n', decimal=",").columns) == 2


def test_a_long_file_is_guessed_by_its_beginning():
    raw = b"a;b\n" + b"1,5;2,5\n" * 20_000
    table = _table(raw, decimal=",")
    assert table.columns == ["a", "b"]
    assert table.n_rows == 20_000
    assert table.frame.row(-1) == ("1.5", "2.5")


def test_a_long_header_is_guessed_as_a_whole():
    names = [f"c{k}" for k in range(20_000)]
    cells = ["1"] * 20_000
    table = _table(("\t".join(names) + "\n" + "\t".join(cells) + "\n").encode())
    assert table.columns == names


def test_without_header_columns_are_numbered():
    assert _table(b"1,2\n3,4\n", header=False).frame.to_dict(as_series=False) == {
        "0": ["1", "3"],
        "1": ["2", "4"],
    }


def test_one_column_keeps_its_empty_lines():
    assert _table(b"a\n1\n\n2\n").frame.rows() == [("1",), (None,), ("2",)]


def _n_calls(function):
    """Return how many functions written in Python are called."""
    calls = []
    sys.setprofile(lambda frame, event, _: calls.append(event) if event == "call" else None)
    try:
        function()
    finally:
        sys.setprofile(None)
    return len(calls)


def test_thousands_of_columns_are_read_and_looked_at_together(tmp_path):
    paths = {}
    for width in (1_100, 2_200):
        rows = [[f"{k % 7}.{row}" for k in range(width)] for row in range(10)]
        lines = [",".join(row) for row in [[f"c{k}" for k in range(width)], *rows]]
        paths[width] = tmp_path / f"{width}.csv"
        paths[width].write_text("\n".join(lines))

    def look(width):
        result = scan(read_table(str(paths[width])).frame)
        assert "more than 1,000 columns" in result.summary["sentence"]

    look(1_100)  # imports what it needs
    few, many = (_n_calls(lambda width=width: look(width)) for width in paths)
    # A call of polars for every column takes some hundred, and seconds for ten thousand columns.
    assert (many - few) / 1_100 < 150


def test_many_columns():
    raw = b",".join(b"c%d" % k for k in range(10_000)) + b"\n" + b",".join([b"1"] * 10_000)
    assert _table(raw).frame.shape == (1, 10_000)


@pytest.mark.parametrize(
    ("raw", "style", "said"),
    [
        (b"\n\n", {}, "t.csv is empty"),
        (
            b"a,b\n1,2\n3\n4\n",
            {},
            r"line 3: 1 field, but the first line has 2 \(delimiter ','\), and so on \(3, 4\)",
        ),
        (b'a,b\n"1\n\n"\n3,4,5\n', {"delimiter": ","}, "line 2: 1 field"),
        (b'a,b\n1,"2\n3,4\n', {"delimiter": ","}, "line 2: a quote is opened and never closed"),
        (b"a,b,a\n1,2,3\n", {}, "two columns called 'a'"),
        (b"\x89PNG\r\n\x1a\n\0\0", {}, "not a table in text"),
        ("ä,b\n".encode("latin-1"), {}, "not text in utf-8; .* --encoding latin-1"),
        ("a,b\n1,2\n".encode("utf-16"), {}, "perhaps in utf-16"),
        (b"\xff,b\n", {"encoding": "ascii"}, "not text in utf-8"),
        (b"a,\x81\n", {"encoding": "cp1252"}, "not text in cp1252"),
        (b"a,b\n", {"encoding": "klingon"}, "encoding 'klingon' is not the name"),
        (b"a,b\n", {"delimiter": "::"}, "delimiter must be one ASCII character"),
        (b"a,b\n", {"decimal": "'"}, "decimal must be '.' or ','"),
        (b"a,b\n", {"thousands": "x"}, "thousands must be one of"),
        (b"a,b\n", {"thousands": "."}, "cannot both be '.'"),
    ],
)
def test_what_is_no_table_is_refused(raw, style, said):
    with pytest.raises(TableError, match=said):
        _table(raw, **style)


def test_control_characters_everywhere():
    raw = b"a,b\n" + bytes(range(1, 9)) + bytes(range(14, 32)) + b"\x7f,1\n"
    with pytest.raises(TableError, match="control characters"):
        _ = _table(raw).frame


# Other formats


def test_json_lines_move_texts_verbatim(tmp_path):
    raw = (
        b'{"id": "x,}", "a" : 1.50,"b":[1, {"a": 2}], "c":  null}\r\n\n'
        b'{"c":2e0, "\\u0061":"007", "id":"\xc3\xa4"}'
    )
    path = tmp_path / "t.jsonl"
    path.write_bytes(raw)
    table = read_table(str(path))
    assert table.columns == ["id", "a", "b", "c"]
    assert table.frame["a"].to_list() == ["1.50", "007"]
    assert table.frame["c"].to_list() == [None, "2e0"]
    assert table.line(1) == 3
    moved = _moved(table, (0, 1, 0, 3), (0, 3, 0, 1), (1, 3, 1, 1), (1, 1, 1, 3))
    assert moved == raw.replace(b" 1.50", b" null", 1).replace(b"  null", b"  1.50").replace(
        b"2e0", b"!"
    ).replace(b'"007"', b"2e0").replace(b"!", b'"007"')
    assert _moved(table) == raw
    with pytest.raises(TableError, match="line 3 has no key 'b'"):
        _moved(table, (1, 2, 1, 1), (1, 1, 1, 2))


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b'{"a": 1}\n{"a": \n', "line 2: "),
        (b'{"a": 1}\n[1]\n', "line 2: not an object"),
        (b" \n", "is empty"),
        (b"{}\n{}\n", "no keys"),
        (b'{"a": "\xff"}\n', "line 1: not text in utf-8"),
    ],
)
def test_bad_json_lines_are_refused(tmp_path, raw, said):
    path = tmp_path / "t.ndjson"
    path.write_bytes(raw)
    with pytest.raises(TableError, match=said):
        _ = read_table(str(path)).frame


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f8", ">f4", "<i2", "<f2", "bool"])
def test_numpy_files_keep_type_and_layout(tmp_path, order, dtype):
    array = np.asarray(np.arange(12).reshape(4, 3) % 7, dtype=dtype, order=order)
    path = tmp_path / "t.npy"
    np.save(path, array)
    table = read_table(str(path))
    assert table.frame.shape == (4, 3)
    assert _moved(table) == path.read_bytes()
    moved = np.load(io.BytesIO(_moved(table, (0, 0, 0, 2), (0, 2, 0, 0))))
    assert moved.dtype == array.dtype
    assert moved.flags.f_contiguous == array.flags.f_contiguous
    np.testing.assert_array_equal(moved, np.vstack([array[0, ::-1], array[1:]]))
    assert table.texts(np.array([1]), np.array([0])) == [str(array[1, 0])]


@pytest.mark.parametrize("array", [np.arange(3.0), np.array([["a"]]), np.ones((2, 2), complex)])
def test_numpy_files_without_a_matrix_are_refused(tmp_path, array):
    np.save(tmp_path / "t.npy", array)
    with pytest.raises(TableError, match="must hold one matrix of numbers"):
        read_table(str(tmp_path / "t.npy"))


def _arrow_table():
    schema = pa.schema(
        [
            pa.field("n", pa.int32(), metadata={"unit": "kg"}),
            ("x", pa.float64()),
            ("word", pa.dictionary(pa.int8(), pa.string())),
        ],
        metadata={"source": "scale 7"},
    )
    words = pa.array(["a", "b", None]).dictionary_encode().cast(schema.field("word").type)
    return pa.table([[1, 2, None], [0.5, 4.0, 2.5], words], schema=schema)


def _write_arrow(path, table):
    if path.suffix == ".parquet":
        pq.write_table(table, path, compression="zstd")
        return
    new = pa.ipc.new_stream if path.suffix == ".ipc" else pa.ipc.new_file
    with new(str(path), table.schema) as writer:
        writer.write_table(table)


def _read_arrow(path, raw):
    source = pa.BufferReader(raw)
    if path.suffix == ".parquet":
        return pq.read_table(source)
    return (pa.ipc.open_stream if path.suffix == ".ipc" else pa.ipc.open_file)(source).read_all()


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".ipc"])
def test_arrow_and_parquet_keep_schema_and_metadata(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    _write_arrow(path, _arrow_table())
    table = read_table(str(path))
    assert table.texts(np.array([0, 2]), np.array([1, 0])) == ["0.5", ""]
    assert _moved(table) == path.read_bytes()
    raw = _moved(table, (1, 0, 1, 1), (1, 1, 1, 0), (0, 1, 2, 1), (2, 1, 0, 1))
    moved = _read_arrow(path, raw)
    assert moved.schema.equals(_arrow_table().schema, check_metadata=True)
    assert moved.column("n").to_pylist() == [1, 4, None]
    assert moved.column("x").to_pylist() == [2.5, 2.0, 0.5]
    assert moved.column("word").to_pylist() == ["a", "b", None]
    if suffix == ".parquet":
        metadata = pq.ParquetFile(pa.BufferReader(raw)).metadata
        assert metadata.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".ipc"])
def test_arrow_and_parquet_without_pyarrow(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"t{suffix}"
    _write_arrow(path, _arrow_table())
    monkeypatch.setattr(_arrow, "find_spec", lambda name: None)
    raw = _moved(read_table(str(path)), (0, 1, 2, 1), (2, 1, 0, 1))
    moved = _read_arrow(path, raw)
    assert moved.column("x").to_pylist() == [2.5, 4.0, 0.5]
    assert moved.schema.field("n").type == pa.int32()
    if suffix == ".parquet":
        assert pq.ParquetFile(pa.BufferReader(raw)).metadata.metadata[b"source"] == b"scale 7"


def test_a_value_that_does_not_fit_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    _write_arrow(path, _arrow_table())
    with pytest.raises(TableError, match=r"column 'n' \(Int32\) cannot hold 0.5 of row 0"):
        _moved(read_table(str(path)), (0, 0, 0, 1), (0, 1, 0, 0))


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "npy"])
@pytest.mark.parametrize("kept", [5, 0.5, -1])
def test_truncated_files_are_refused(tmp_path, capfd, suffix, kept):
    path = tmp_path / f"t.{suffix}"
    frame = pl.DataFrame({"a": np.arange(50.0), "b": np.arange(50.0)})
    writers = {
        "parquet": frame.write_parquet,
        "arrow": frame.write_ipc,
        "npy": lambda path: np.save(path, frame.to_numpy()),
    }
    writers[suffix](path)
    raw = path.read_bytes()
    path.write_bytes(raw[: int(len(raw) * kept) if kept == 0.5 else kept])
    with pytest.raises(TableError, match=r"complete|cut off"):
        read_table(str(path))
    assert capfd.readouterr().err == ""


# Which file


@pytest.mark.parametrize(
    ("name", "found"),
    [("a.CSV", "csv"), ("a.feather", "arrow"), ("a.ndjson", "jsonl"), ("-", "csv")],
)
def test_the_extension_tells_the_format(name, found):
    assert file_format(name) == found
    assert file_format(name, "npy") == "npy"


def test_what_is_no_file_is_refused(tmp_path):
    for path, said in [
        (tmp_path, "is a directory, not a table"),
        (tmp_path / "none.csv", "cannot be read: No such file"),
        (tmp_path / "none", "cannot be read: No such file"),
    ]:
        with pytest.raises(TableError, match=said):
            read_table(str(path))
    (tmp_path / "empty.csv").touch()
    with pytest.raises(TableError, match="is empty"):
        read_table(str(tmp_path / "empty.csv"))
    (tmp_path / "a.xyz").write_text("a,b\n1,2\n")
    with pytest.raises(TableError, match="does not tell the format; give --format csv"):
        read_table(str(tmp_path / "a.xyz"))
    with pytest.raises(TableError, match="format must be one of"):
        read_table(str(tmp_path / "a.xyz"), format="xls")
    assert read_table(str(tmp_path / "a.xyz"), format="csv").n_rows == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads anything")
def test_a_file_without_permission(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a\n")
    path.chmod(0)
    with pytest.raises(TableError, match="Permission denied"):
        read_table(str(path))


def test_files_are_not_converted():
    check_output_format("out.tsv", "in.csv", "csv")
    check_output_format("out.dat", "in.csv", "csv")
    with pytest.raises(TableError, match=r"would hold csv.*extension that means parquet"):
        check_output_format("out.parquet", "in.csv", "csv")


def test_unknown_columns_are_refused_with_a_guess():
    table = _table(b"age,weight\n1,2\n")
    check_columns(["age"], table)
    with pytest.raises(TableError, match="no column 'agee'; did you mean 'age'"):
        check_columns(["agee"], table)
    with pytest.raises(TableError, match="no column 'zzz'; its columns are 'age', 'weight'"):
        check_columns(["zzz"], table)


# Writing


def test_nothing_is_left_after_an_interrupt(tmp_path):
    def pieces():
        yield b"half"
        raise KeyboardInterrupt

    def write_both():
        with OutputFiles(force=False) as files:
            files.plan(str(tmp_path / "a"))
            files.plan(str(tmp_path / "b"))
            files.write(str(tmp_path / "a"), [b"whole"])
            files.write(str(tmp_path / "b"), pieces())

    with pytest.raises(KeyboardInterrupt):
        write_both()
    assert list(tmp_path.iterdir()) == []


def test_existing_files_need_force(tmp_path):
    table, other = tmp_path / "t.csv", tmp_path / "other.csv"
    table.write_text("in")
    other.write_text("old")
    other.chmod(0o640)
    link = tmp_path / "link.csv"
    link.symlink_to(other)
    with OutputFiles(force=False, inputs=[str(table)]) as files:
        with pytest.raises(TableError, match="is the input itself; --force"):
            files.plan(str(table))
        with pytest.raises(TableError, match="exists already; --force"):
            files.plan(str(link))
    with OutputFiles(force=True) as files:
        files.plan(str(link))
        files.write(str(link), [b"new"])
        assert other.read_text() == "old"
        files.commit()
    assert other.read_text() == "new"
    assert link.is_symlink()
    assert stat.S_IMODE(other.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.csv", "other.csv", "t.csv"]


def test_new_files_have_the_permissions_of_new_files(tmp_path):
    (tmp_path / "plain").touch()
    with OutputFiles(force=False) as files:
        files.write(str(tmp_path / "a"), [b""])
        files.commit()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_outputs_that_cannot_be_written_are_refused_early(tmp_path):
    files = OutputFiles(force=False)
    with pytest.raises(TableError, match="is a directory"):
        files.plan(str(tmp_path))
    with pytest.raises(TableError, match="there is no directory"):
        files.plan(str(tmp_path / "none" / "a.csv"))
    files.plan(str(tmp_path / "a.csv"))
    with pytest.raises(TableError, match="named for two outputs"):
        files.plan(str(tmp_path / "." / "a.csv"))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_one_sentence():
    with OutputFiles(force=False) as files:
        files.plan("/dev/full")
        with pytest.raises(TableError, match="cannot be written: No space left on device"):
            files.write("/dev/full", [b"x" * 100_000])
