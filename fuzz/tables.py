"""Small tables in every format, from which odd files are made."""

import bz2
import functools
import gzip
import io
import json
import lzma
import zipfile

import numpy as np
import polars as pl
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
    """Return a table as a small workbook."""

    def cell(i, j, text):
        text = text.replace("&", "&amp;").replace("<", "&lt;")
        return (
            f'<c r="{chr(65 + j)}{i + 1}" t="inlineStr"><is><t>{text}</t></is></c>' if text else ""
        )

    body = "".join(
        f'<row r="{i + 1}">' + "".join(cell(i, j, text) for j, text in enumerate(row)) + "</row>"
        for i, row in enumerate([NAMES, *rows])
    )
    main = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"

    def refers(name, kind, target):
        return f'<R><Relationship Id="{name}" Type="{main}/{kind}" Target="{target}"/></R>'

    parts = {
        "_rels/.rels": refers("a", "officeDocument", "xl/workbook.xml"),
        "xl/workbook.xml": '<workbook><sheets><sheet name="s" r:id="b"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": refers("b", "worksheet", "s.xml"),
        "xl/s.xml": f"<worksheet><sheetData>{body}</sheetData></worksheet>",
    }
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as file:
        for name, content in parts.items():
            file.writestr(name, content)
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
