"""Ragged lines and kinds of files: how many lines are mended, and whether kinds are repaired alike.

``--part ragged``: in tables of 2,000 records 2% of the lines get one delimiter without quotes too
many, and 1% lose a field. A line is restored if it reads as it should, wrong if it was changed into
anything else. ``--part kinds``: a damaged table is repaired as plain CSV and as
a file of every other kind; counted are the cells that only one of the two moves.
"""

import argparse
import bz2
import csv
import datetime
import gzip
import io
import json
import re
import tempfile
from pathlib import Path

import numpy as np
import xlsxwriter
import zstandard
from made_tables import customers, damage, hospital, orders
from typer.testing import CliRunner

from unpermute.cli._app import app

TABLES = (customers, orders, hospital)
DECIMAL = re.compile(r"\d+\.\d+")


def run(*words):
    result = CliRunner().invoke(app, list(map(str, words)), prog_name="unpermute")
    if result.exit_code:
        raise RuntimeError(result.stderr)
    return result.stdout


def ragged(seeds):
    print(f"{'table':<10} {'seed':>4} {'lines':>6} {'restored':>9} {'left':>5} {'wrong':>6}"
          f" {'listed':>7} {'others changed':>15}")  # fmt: skip
    total = np.zeros(4, dtype=int)
    for make in TABLES:
        for seed in seeds:
            lines, wanted = break_lines(make(2000, seed), np.random.default_rng([seed, 1]))
            total += judge_lines(f"{make.__name__:<10} {seed:>4}", lines, wanted)
    n, restored, left, wrong = total
    print(f"all: {restored / n:.1%} of {n} restored, {left} left as they stand, {wrong} wrong")


def break_lines(table, rng):
    """Return the lines of a file, the header first, and what broken ones should hold by line."""
    records = table.to_numpy(dtype=object).tolist()
    lines = [quoted_line(record) for record in [list(table.columns), *records]]
    order, n = rng.permutation(len(records)).tolist(), len(records)
    wanted = {}
    for row in order[: n // 50]:
        record = records[row]
        j = rng.choice([k for k, cell in enumerate(record) if re.search("[A-Za-z]{3}", cell)])
        cell = record[j]
        middle = len(cell) // 2
        if "," not in cell:
            spaced = cell.replace(" ", ", ", 1)
            cell = spaced if spaced != cell else f"{cell[:middle]},{cell[middle:]}"
        record[j] = cell
        before, after = (quoted_line(part) for part in (record[:j], record[j + 1 :]))
        lines[row + 1] = ",".join(part for part in (before, cell, after) if part)
        wanted[row + 1] = list(record)
    for row in order[n // 50 : n // 50 + n // 100]:
        record, j = records[row], int(rng.integers(len(table.columns)))
        lines[row + 1] = quoted_line(record[:j] + record[j + 1 :])
        record[j] = ""
        wanted[row + 1] = list(record)
    return lines, wanted


def judge_lines(label, lines, wanted):
    with tempfile.TemporaryDirectory() as folder:
        table, output = Path(folder, "t.csv"), Path(folder, "out.csv")
        table.write_text("\n".join(lines) + "\n")
        said = json.loads(run("repair", table, "-o", output, "--min-confidence", "0.95", "--json"))
        after = output.read_text().splitlines()
    restored = sum(next(csv.reader([after[k]])) == right for k, right in wanted.items())
    left = sum(after[k] == lines[k] for k in wanted)
    wrong = len(wanted) - restored - left
    others = sum(
        a != b for k, (a, b) in enumerate(zip(lines, after, strict=True)) if k not in wanted
    )
    listed = {line["line"] - 1 for line in said["ragged_lines"]} == set(wanted)
    all_listed = "all" if listed else "NOT ALL"
    print(
        f"{label} {len(wanted):>6} {restored:>9} {left:>5} {wrong:>6} {all_listed:>7} {others:>15}"
    )
    return len(wanted), restored, left, wrong


def quoted_line(cells):
    sink = io.StringIO()
    csv.writer(sink, lineterminator="").writerow(cells)
    return sink.getvalue() if len(cells) > 0 else ""


def kinds(seeds):
    print(f"{'table':<10} {'seed':>4} {'kind':<10} {'cells moved':>12} {'not as plain CSV':>17}")
    for make in TABLES:
        for seed in seeds:
            table = damage(make(1000, seed), "swap", 0.03, seed)
            plain = moved_cells(table, "csv")
            for kind in KINDS:
                found = moved_cells(table, kind)
                print(f"{make.__name__:<10} {seed:>4} {kind:<10} {len(found):>12}"
                      f" {len(found ^ plain):>17}", flush=True)  # fmt: skip


def moved_cells(table, kind):
    """Return the cells that a repair moves, with where their values come from."""
    name, write = ("t.csv", plain_csv) if kind == "csv" else KINDS[kind]
    with tempfile.TemporaryDirectory() as folder:
        path, output = Path(folder, name), Path(folder, f"out.{name}")
        write(table, path)
        said = json.loads(run("repair", path, "-o", output, "--json"))
    return {
        (change["row"], change["column"], change["moved_from"])
        for change in said["changes"] if change["accept"] == "yes"
    }  # fmt: skip


def plain_csv(table, path):
    path.write_text(csv_text(table))


def csv_text(table, delimiter=",", change=str):
    return table.map(change).to_csv(index=False, sep=delimiter)


def packed(pack):
    return lambda table, path: path.write_bytes(pack(csv_text(table).encode()))


def workbook(table, path):
    book = xlsxwriter.Workbook(path)
    sheet, as_date = book.add_worksheet(), book.add_format({"num_format": "yyyy-mm-dd"})
    for j, name in enumerate(table.columns):
        sheet.write_string(0, j, name)
    for (i, j), cell in np.ndenumerate(table.to_numpy(dtype=object)):
        if re.fullmatch(r"\d{4}-\d\d-\d\d", cell):
            sheet.write_datetime(i + 1, j, datetime.datetime.fromisoformat(cell), as_date)
        elif re.fullmatch(r"0|[1-9]\d*(\.\d+)?", cell):
            sheet.write_number(i + 1, j, float(cell))
        elif cell:
            sheet.write_string(i + 1, j, cell)
    book.close()


def with_comma(cell):
    return cell.replace(".", ",") if DECIMAL.fullmatch(cell) else cell


def money(cell):
    """Return a number as a German price, or as a share if it has one decimal."""
    if not DECIMAL.fullmatch(cell):
        return cell
    whole, decimals = cell.split(".")
    number = f"{int(whole):,}".replace(",", ".") + "," + decimals
    return f"{number} %" if len(decimals) == 1 else f"€ {number}"


KINDS = {
    "gz": ("t.csv.gz", packed(gzip.compress)),
    "bz2": ("t.csv.bz2", packed(bz2.compress)),
    "zst": ("t.csv.zst", packed(zstandard.compress)),
    "xlsx": ("t.xlsx", workbook),
    "json": ("t.json", lambda table, path: table.to_json(path, orient="records")),
    "preamble": (
        "t.csv", lambda table, path: path.write_text("A title\nmade today\n\n" + csv_text(table)),
    ),
    "commas": ("t.csv", lambda table, path: path.write_text(csv_text(table, ";", with_comma))),
    "€ and %": ("t.csv", lambda table, path: path.write_text(csv_text(table, ";", money))),
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=["ragged", "kinds"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    options = parser.parse_args()
    for name, part in (("ragged", ragged), ("kinds", kinds)):
        if options.part in (None, name):
            part(options.seeds)


if __name__ == "__main__":
    main()
