"""Files people have: compressed, with a preamble, decimal commas and money, JSON, workbooks."""

import bz2
import datetime
import gzip
import io
import json
import lzma
import re
import zipfile

import numpy as np
import polars as pl
import pytest
import xlsxwriter
import zstandard
from typer.testing import CliRunner

from unpermute.cli._app import app
from unpermute.files import CsvStyle, Moves, TableError, read_table

PACKED = {
    "gz": (gzip.compress, gzip.decompress),
    "bz2": (bz2.compress, bz2.decompress),
    "xz": (lzma.compress, lzma.decompress),
    "zst": (
        zstandard.compress,
        lambda raw: zstandard.ZstdDecompressor().decompressobj().decompress(raw),
    ),
}
NAMES = ["name", "since", "price", "share", "weight"]


def _rows(n=120):
    """Records of texts, dates and numbers; in some, two values are exchanged."""
    rng = np.random.default_rng(5)
    people = ["Anna", "Bert", "Carla", "Dieter", "Eva", "Franz"]
    rows = [
        [
            f"{people[rng.integers(6)]} {chr(65 + rng.integers(26))}.",
            f"20{rng.integers(10, 24)}-{rng.integers(1, 13):02}-{rng.integers(1, 28):02}",
            f"{rng.gamma(3, 400):.2f}",
            f"{rng.uniform(0, 60):.1f}",
            f"{rng.normal(70, 9):.3f}",
        ]
        for _ in range(n)
    ]
    for k, (a, b) in enumerate([(0, 1), (1, 2), (0, 3), (0, 4), (0, 2), (1, 4)]):
        row = 5 + 20 * k
        rows[row][a], rows[row][b] = rows[row][b], rows[row][a]
    return rows


ROWS = _rows()


def _csv(rows=ROWS, delimiter=","):
    return "".join(delimiter.join(row) + "\n" for row in [NAMES, *rows])


def _with_comma(cell):
    return cell.replace(".", ",") if re.fullmatch(r"\d+\.\d+", cell) else cell


def _german(cell):
    if not re.fullmatch(r"\d+\.\d+", cell):
        return cell
    whole, decimals = cell.split(".")
    return f"{int(whole):,}".replace(",", ".") + "," + decimals


def _dressed(cell):
    sign = {2: "€ ", 1: ""}.get(len(cell.split(".")[-1]), "")
    after = " %" if re.fullmatch(r"\d+\.\d", cell) else ""
    return sign + _german(cell) + after if re.fullmatch(r"\d+\.\d+", cell) else cell


def _each(change):
    return [[change(cell) for cell in row] for row in ROWS]


def _workbook(path, rows=ROWS, title="data"):
    book = xlsxwriter.Workbook(path)
    book.add_worksheet("notes").write(0, 0, "nothing here")
    sheet = book.add_worksheet(title)
    as_date = book.add_format({"num_format": "yyyy-mm-dd"})
    for i, row in enumerate([NAMES, *rows]):
        for j, cell in enumerate(row):
            if re.fullmatch(r"\d+-\d+-\d+", cell):
                sheet.write_datetime(i, j, datetime.datetime.fromisoformat(cell), as_date)
            elif re.fullmatch(r"[\d.]+", cell):
                sheet.write_number(i, j, float(cell))
            elif cell:
                sheet.write_string(i, j, cell)
    book.close()


def _write(folder, kind):
    """Write the table as a file of some kind; return the file and options to read it with."""
    path = folder / kind
    if kind == "t.xlsx":
        _workbook(path)
        return path, ["--sheet", "data"]
    records = [dict(zip(NAMES, row, strict=True)) for row in ROWS]
    content = {
        "plain.csv": _csv().encode(),
        "t.json": json.dumps(records, indent=1).encode(),
        "preamble.csv": ("Stock of the warehouse\nmade on 2024-01-01\n\n" + _csv()).encode(),
        "comma.csv": _csv(_each(_with_comma), ";").encode(),
        "german.csv": _csv(_each(_german), ";").encode(),
        "money.csv": _csv(_each(_dressed), ";").encode(),
    } | {f"t.csv.{name}": pack(_csv().encode()) for name, (pack, _) in PACKED.items()}
    path.write_bytes(content[kind])
    return path, []


def _run(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)), prog_name="unpermute")
    assert result.exit_code == 0, result.stderr
    return result


def _repaired(folder, kind):
    path, options = _write(folder, kind)
    output, changes = folder / f"out-{kind}", folder / f"{kind}.changes.csv"
    result = _run("repair", path, "-o", output, "--changes", changes, *options)
    listed = pl.read_csv(changes, infer_schema=False)
    undone = folder / f"undone-{kind}"
    _run("apply", output, changes, "--undo", "-o", undone, *options)
    return path, output, undone, listed.select("row", "column", "moved_from", "accept"), result


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return _repaired(tmp_path_factory.mktemp("plain"), "plain.csv")[3]


KINDS = [
    *(f"t.csv.{name}" for name in PACKED), "t.json", "t.xlsx", "preamble.csv", "comma.csv",
    "german.csv", "money.csv",
]  # fmt: skip


def _content(path):
    raw = path.read_bytes()
    if path.suffix == ".xlsx":
        with zipfile.ZipFile(io.BytesIO(raw)) as file:
            return {name: file.read(name) for name in file.namelist()}
    return PACKED[path.suffix[1:]][1](raw) if path.suffix[1:] in PACKED else raw


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_repaired_as_the_plain_file_is(tmp_path, plain, kind):
    before, output, undone, listed, _ = _repaired(tmp_path, kind)
    assert listed.height >= 10
    assert listed.rows() == plain.rows()
    assert _content(undone) == _content(before)
    if kind == "t.xlsx":
        old, new = _content(before), _content(output)
        assert [name for name in old if old[name] != new[name]] == ["xl/worksheets/sheet2.xml"]
    elif kind not in ("t.json",):
        changed = zip(_content(before).splitlines(), _content(output).splitlines(), strict=True)
        assert sum(a != b for a, b in changed) == len(plain["row"].unique())


def test_what_was_assumed_is_said(tmp_path):
    said = _repaired(tmp_path, "german.csv")[4].stdout
    assert "Fields are separated by semicolons." in said
    assert "Read as decimal commas: price, share, weight." in said
    said = _run("scan", *_flat(_write(tmp_path, "money.csv")), "--json").stdout
    signs = [note for note in json.loads(said)["assumed"] if "money" in note or "cent" in note]
    assert signs == ["Read as money: price.", "Read as per cent: share."]
    said = _run("scan", *_flat(_write(tmp_path, "preamble.csv")), "--json").stdout
    [note] = json.loads(said)["assumed"]
    assert note.startswith("The header is taken to be line 4")
    said = _run("scan", *_flat(_write(tmp_path, "t.xlsx"))).stdout
    assert "The table is the sheet 'data'; --sheet chooses: 'notes'." in " ".join(said.split())


def _flat(written):
    return [written[0], *written[1]]


# Delimited text


def _table(tmp_path, text, name="t.csv", **style):
    path = tmp_path / name
    path.write_bytes(text.encode())
    return read_table(str(path), style=CsvStyle(**style))


@pytest.mark.parametrize(
    ("text", "columns", "n_rows"),
    [
        ("title\n\na,b,c\n1,2,3\n4,5,6\n", ["a", "b", "c"], 2),
        ("made by,us\na,b,c,d\n1,2,3,4\n4,5,6,7\n", ["a", "b", "c", "d"], 2),
        # The first line may be a header that lacks a name: no guess.
        ("a,b\n1,2,3\n4,5,6\n", None, None),
        # What follows does not look like a header.
        ("a\n1,2,3\n4,5,6\n", None, None),
    ],
)
def test_lines_before_the_header(tmp_path, text, columns, n_rows):
    if columns is None:
        with pytest.raises(TableError, match="but the first line has"):
            _table(tmp_path, text)
        return
    table = _table(tmp_path, text)
    assert (table.columns, table.frame.height) == (columns, n_rows)
    exchange = Moves(*map(np.array, ([0, 0], [0, 1], [0, 0], [1, 0])))
    moved = b"".join(table.with_moves(exchange)).decode()
    assert moved == text.replace("1,2,3", "2,1,3")


def test_lines_to_skip_are_the_last_word(tmp_path):
    text = "a,b\nx,y\n1,2\n"
    assert _table(tmp_path, text, skip_lines=1).columns == ["x", "y"]
    assert _table(tmp_path, "title\n" + text, skip_lines=2).columns == ["x", "y"]
    with pytest.raises(TableError, match="has no 5 lines to skip, but 3"):
        _table(tmp_path, text, skip_lines=5)


@pytest.mark.parametrize(
    ("cells", "read"),
    [
        (["1,5", "2,25", "1.234,5"], ["1.5", "2.25", "1234.5"]),
        (["1.5", "1,234.5", "1,234"], ["1.5", "1234.5", "1234"]),
        (["1,234", "12,500"], ["1234", "12500"]),
        (["€ 1.234,50", "3,20 €", "-4,5 %"], ["€ 1234.50", "3.20 €", "-4.5 %"]),
        (["1 234,5", "12'345,6"], ["1234.5", "12345.6"]),
        (["192.168.100.200", "10.0.0.1"], ["192.168.100.200", "10.0.0.1"]),
        (["1,5", "2.5", "a,b"], ["1,5", "2.5", "a,b"]),
        (["2020-01-02", "01.02.2020", None], ["2020-01-02", "01.02.2020", None]),
    ],
)
def test_marks_of_numbers_are_found(tmp_path, cells, read):
    text = "x\n" + "".join(f'"{cell or ""}"\n' for cell in cells)
    assert _table(tmp_path, text, delimiter=";").frame["x"].to_list() == read


def test_a_column_without_evidence_is_read_as_the_others(tmp_path):
    table = _table(tmp_path, "a;b\n1,5;70,123\n2,5;81,456\n")
    assert table.frame["b"].to_list() == ["70.123", "81.456"]


def test_audit_reads_money(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(1000, 100, 60)
    rows = [f"€ {v:.2f},{v / 7:.3f},{w:.1f} %" for v, w in zip(x, x[::-1] / 50, strict=True)]
    path = tmp_path / "t.csv"
    path.write_text("paid,tax,share\n" + "\n".join(rows) + "\n")
    result = _run("audit", path, "--columns", "paid", "--trials", "2")
    assert "100.0% are re-linked" in result.stdout  # the tax gives them away


# Compression


@pytest.mark.parametrize("name", PACKED)
def test_a_damaged_compressed_file_is_one_sentence(tmp_path, name):
    path = tmp_path / f"t.csv.{name}"
    path.write_bytes(PACKED[name][0](_csv().encode())[:-30])
    with pytest.raises(TableError, match=rf"is not a complete \.{name} file"):
        read_table(str(path))


def test_first_bytes_tell_compression_whatever_the_extension(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert read_table(str(path)).frame.rows() == [("1", "2")]


def test_the_output_is_compressed_as_the_input_is(tmp_path):
    path, _ = _write(tmp_path, "t.csv.gz")
    result = CliRunner().invoke(app, ["repair", str(path), "-o", str(tmp_path / "out.csv")])
    assert result.exit_code == 2
    assert "let it end in .csv.gz" in result.stderr
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    words = ["repair", str(tmp_path / "t.csv"), "-o", str(tmp_path / "out.csv.gz")]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert "would not be compressed" in result.stderr


# JSON


def test_json_lines_may_be_called_json(tmp_path):
    table = _table(tmp_path, '{"a": 1}\n{"a": 2}\n', "t.json")
    assert table.frame["a"].to_list() == ["1", "2"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1, 2]", r"'\{' expected: line 1 column 2"),
        ('[{"a": 1}, ]', r"'\{' expected"),
        ('[{"a": 1} {"a": 2}]', "'\\]' expected"),
        ('[{"a": 1}] x', "more after the array"),
        ('"text"', r"'\[' expected"),
        ("[]", "is empty"),
        ('[{"a":' + "[" * 100_000, "nested too deeply"),
    ],
)
def test_json_that_is_no_table_is_refused(tmp_path, text, said):
    with pytest.raises(TableError, match=said):
        _table(tmp_path, text, "t.json").frame  # noqa: B018


def test_values_of_json_move_as_they_stand(tmp_path):
    text = '[ {"ä": 1.50, "b": "x\\u00e9"} ,\n{"ä": [2], "b": null}]\n'
    table = _table(tmp_path, text, "t.json")
    assert table.lines(np.array([0, 1])).tolist() == [1, 2]
    exchange = Moves(*map(np.array, ([1, 1], [0, 1], [1, 1], [1, 0])))
    moved = b"".join(table.with_moves(exchange)).decode()
    assert moved == text.replace("[2]", "@").replace("null", "[2]").replace("@", "null")


# Workbooks


@pytest.fixture(scope="module")
def workbook(tmp_path_factory):
    path = tmp_path_factory.mktemp("book") / "t.xlsx"
    _workbook(path)
    return path


def test_a_workbook_is_read_as_calamine_reads_it(workbook):
    ours = read_table(str(workbook), sheet="2").frame
    theirs = pl.read_excel(
        workbook, sheet_name="data", engine="calamine", infer_schema_length=0
    ).with_columns(pl.all().str.replace(r" 00:00:00$", ""))
    assert ours.columns == theirs.columns
    for name in ours.columns:
        for a, b in zip(ours[name], theirs[name], strict=True):
            assert a == b or float(a) == float(b)


def test_a_workbook_may_become_csv_or_parquet(workbook, tmp_path):
    for suffix, read in ((".csv", pl.read_csv), (".parquet", pl.read_parquet)):
        output = tmp_path / f"out{suffix}"
        _run("repair", workbook, "--sheet", "data", "-o", output)
        frame = read(output)
        assert frame.columns == NAMES
        assert frame.schema["weight"] == pl.Float64
        assert frame.height == len(ROWS)


def test_an_empty_cell_moves_too(tmp_path):
    path = tmp_path / "t.xlsx"
    _workbook(path, [["a", "2020-01-01", "", "3", "4"], ["b", "", "2", "", ""]])
    table = read_table(str(path), sheet="data")
    exchange = Moves(*map(np.array, ([0, 0, 1, 1], [2, 4, 1, 2], [0, 0, 1, 1], [4, 2, 2, 1])))
    moved = tmp_path / "moved.xlsx"
    moved.write_bytes(b"".join(table.with_moves(exchange)))
    again = read_table(str(moved), sheet="data")
    assert again.frame.rows() == [("a", "2020-01-01", "4", "3", None), ("b", "2", None, None, None)]
    back = tmp_path / "back.xlsx"
    back.write_bytes(b"".join(again.with_moves(exchange)))
    assert _content(back) == _content(path)


def test_a_title_above_the_header_is_found(tmp_path):
    path = tmp_path / "t.xlsx"
    book = xlsxwriter.Workbook(path)
    sheet = book.add_worksheet()
    sheet.write(0, 0, "Stock")
    for j, name in enumerate(["a", "b", "c"]):
        sheet.write(2, j + 1, name)
        sheet.write(3, j + 1, j)
        sheet.write(4, j + 1, 10 * j)
    book.close()
    table = read_table(str(path))
    assert table.columns == ["a", "b", "c"]
    assert table.lines(np.array([0, 1])).tolist() == [4, 5]
    assert "row 3" in table.notes[0]


def test_formulas_are_not_moved(tmp_path):
    path = tmp_path / "t.xlsx"
    book = xlsxwriter.Workbook(path)
    sheet = book.add_worksheet()
    for i, row in enumerate([["a", "b"], [1, "=A2*2"], [2, 3]]):
        for j, cell in enumerate(row):
            sheet.write(i, j, cell)
    book.close()
    table = read_table(str(path))
    exchange = Moves(*map(np.array, ([0, 0], [0, 1], [0, 0], [1, 0])))
    with pytest.raises(TableError, match="cell B2 holds a formula"):
        list(table.with_moves(exchange))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda raw: b"PK\x03\x04 no workbook", "is not a workbook"),
        (lambda raw: raw[: len(raw) // 2], "is not a workbook"),
        (lambda raw: b"\xd0\xcf\x11\xe0" + raw, "old or an encrypted workbook"),
        (lambda raw: _part_replaced(raw, b"<x>"), "is unreadable"),
        (lambda raw: _part_replaced(raw, b'<!DOCTYPE x [<!ENTITY a "b">]><x/>'), "is unreadable"),
        (lambda raw: _part_replaced(raw, b"<x/>"), "is empty"),
    ],
)
def test_a_damaged_workbook_is_one_sentence(workbook, tmp_path, change, said):
    path = tmp_path / "bad.xlsx"
    path.write_bytes(change(workbook.read_bytes()))
    with pytest.raises(TableError, match=said):
        read_table(str(path), sheet="2")


def _part_replaced(raw, content):
    sink = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as old, zipfile.ZipFile(sink, "w") as new:
        for name in old.namelist():
            new.writestr(name, content if name.endswith("sheet2.xml") else old.read(name))
    return sink.getvalue()


@pytest.mark.parametrize("sheet", ["x", "0", "3", "0000000015", "9" * 30, "²"])
def test_a_sheet_that_is_not_there_is_named(workbook, sheet):
    with pytest.raises(TableError, match=f"no sheet '{sheet}'; its sheets are 'notes', 'data'"):
        read_table(str(workbook), sheet=sheet)


def test_an_empty_sheet_says_where_the_table_may_be(workbook):
    result = CliRunner().invoke(app, ["scan", str(workbook)])
    assert result.exit_code == 2
    assert "--sheet chooses: 'data'" in result.stderr
