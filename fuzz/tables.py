"""Small tables in every format, from which odd files are made."""

import bz2
import datetime
import functools
import gzip
import io
import json
import lzma

import numpy as np
import polars as pl
import xlsxwriter
import zstandard


def rows_of(rng, n=12):
    """Records of texts, numbers, dates and gaps."""
    return [
        [
            f"r{i}",
            str(rng.choice(["red", "green", 'say "x"', "a, b", "ä ö", "=2"])),
            f"{rng.normal(50, 10):.2f}",
            f"20{rng.integers(10, 24)}-{rng.integers(1, 13):02}-{rng.integers(1, 29):02}",
            "" if rng.random() < 0.2 else str(rng.integers(100)),
        ]
        for i in range(n)
    ]


NAMES = ["id", "word", "amount", "day", "count"]


def _quoted(cell, delimiter):
    odd = any(c in cell for c in (delimiter, '"', "\n", "\r"))
    return '"' + cell.replace('"', '""') + '"' if odd else cell


def csv_of(rows, delimiter=",", end="\n", names=NAMES):
    """Return a table as delimited text."""
    lines = [delimiter.join(_quoted(cell, delimiter) for cell in row) for row in [names, *rows]]
    return (end.join(lines) + end).encode()


def workbook_of(rows):
    """Return a table as a small workbook, with dates, numbers and shared strings."""
    sink = io.BytesIO()
    book = xlsxwriter.Workbook(sink)
    sheet, as_date = book.add_worksheet(), book.add_format({"num_format": "yyyy-mm-dd"})
    for i, row in enumerate([NAMES, *rows]):
        for j, cell in enumerate(row):
            if i and j == 3:
                sheet.write_datetime(i, j, datetime.datetime.fromisoformat(cell), as_date)
            elif i and j in (2, 4) and cell:
                sheet.write_number(i, j, float(cell))
            elif cell:
                sheet.write_string(i, j, cell)
    book.close()
    return sink.getvalue()


@functools.cache
def base_files():
    """Return small sound files: suffix and content."""
    rng = np.random.default_rng(0)
    rows = rows_of(rng)
    plain = csv_of(rows)
    records = [dict(zip(NAMES, row, strict=True)) for row in rows]
    frame = pl.DataFrame(records).with_columns(pl.col("amount").cast(pl.Float64))
    found = [
        (".csv", plain), (".csv", csv_of(rows, ";", "\r\n")), (".csv", csv_of(rows, "\t", "\r")),
        (".csv", b"A title\nmade today\n\n" + plain), (".tsv", csv_of(rows, "\t")),
        (".csv", plain.replace(b"\nr3,", b"\nr3,extra,")), (".csv", "\ufeff".encode() + plain),
        (".jsonl", "\n".join(map(json.dumps, records)).encode()),
        (".json", json.dumps(records, indent=1, ensure_ascii=False).encode()),
        (".csv.gz", gzip.compress(plain)), (".csv.bz2", bz2.compress(plain)),
        (".csv.xz", lzma.compress(plain)), (".csv.zst", zstandard.compress(plain)),
        (".xlsx", workbook_of(rows)),
    ]  # fmt: skip
    for suffix, write in ((".parquet", frame.write_parquet), (".arrow", frame.write_ipc)):
        sink = io.BytesIO()
        write(sink)
        found.append((suffix, sink.getvalue()))
    sink = io.BytesIO()
    np.save(sink, rng.normal(size=(8, 4)))
    return [*found, (".npy", sink.getvalue())]
