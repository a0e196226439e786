"""A folder of finished pieces: what is there is complete, and a run goes on with what is not.

``_unpermute.json`` says what the pieces are of, ``_unpermute.model`` is the model that judges them,
``_learned.json`` holds what else the sample told. A repaired piece of Parquet is a file of its own;
those of CSV wait in ``_parts``. When the proposed changes of a piece are in ``_changes``, the piece
is done. Readers of data sets skip names that begin with an underscore.
"""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unpermute.files import TableError
from unpermute.large._files import Piece
from unpermute.stream import import_optional, written_at_once
from unpermute.table import TableModel

__all__ = ["CHANGES_SCHEMA", "Folder", "aside_folder"]

_MANIFEST, _MODEL, _LEARNED = "_unpermute.json", "_unpermute.model", "_learned.json"
_CHANGES, _PARTS = "_changes", "_parts"
_FORMAT = 1
_SUMMARY = b"unpermute"
# Names and types of the list of changes.
CHANGES_SCHEMA = {
    "file": "string", "row": "int64", "line": "int64", "id": "string", "column": "string",
    "old": "string", "new": "string", "moved_from": "string", "accept": "bool",
    "damaged": "double", "confidence": "double", "cause": "string", "evidence": "string",
}  # fmt: skip


@dataclass(frozen=True)
class Folder:
    """Where the pieces of a run go.

    Attributes
    ----------
    path : str
        The folder.
    """

    path: str

    def keep_model(self, model: TableModel, learned: dict[str, Any]) -> None:
        """Keep a model, and what else was learned from the sample, for a run that goes on."""
        with written_at_once(Path(self.path, _LEARNED)) as file:
            file.write(json.dumps(learned, indent=1).encode())
        with written_at_once(Path(self.path, _MODEL)) as file:
            model.save(file)

    def kept_model(self) -> tuple[TableModel, dict[str, Any]] | None:
        """Return what :meth:`keep_model` has kept, or None."""
        path = Path(self.path, _MODEL)
        if not path.exists():
            return None
        learned = json.loads(Path(self.path, _LEARNED).read_text(encoding="utf-8"))
        return TableModel.load(path), learned

    def outputs(self) -> list[str]:
        """Return where the outputs of a run that was begun here go; they may be replaced."""
        manifest = Path(self.path, _MANIFEST)
        return _read(manifest)["outputs"] if manifest.exists() else []

    def prepare(
        self, identity: dict[str, Any], parts: list[str], outputs: list[str], *, force: bool
    ) -> None:
        """Make the folder ready for a run, or refuse what would mix two runs.

        Parameters
        ----------
        identity : dict
            What must be the same for a run to go on, by what it is called.
        parts : list of str
            What the files of the run are called, repaired pieces among them.
        outputs : list of str
            Where the table and the list of changes go.
        force : bool
            Whether results of another run are removed.
        """
        folder, manifest = Path(self.path), Path(self.path, _MANIFEST)
        if folder.exists() and not folder.is_dir():
            raise TableError(f"{self.path} is a file, but the output is a folder; name another.")
        if manifest.exists():
            earlier = _read(manifest)
            other = [name for name in identity if earlier["run"].get(name) != identity[name]]
            if not other:
                self._sweep()
                return
            if not force:
                raise TableError(
                    f"{self.path} holds results of an earlier run with other {' and '.join(other)};"
                    " name another output, or --force starts afresh."
                )
            self._remove(earlier["parts"])
        elif folder.exists() and any(folder.iterdir()):
            raise TableError(f"{self.path} holds other files; name a new folder, or an empty one.")
        folder.mkdir(parents=True, exist_ok=True)
        Path(folder, _CHANGES).mkdir(exist_ok=True)
        content = {"format": _FORMAT, "run": identity, "parts": parts, "outputs": outputs}
        with written_at_once(manifest) as file:
            file.write(json.dumps(content, indent=1).encode())

    def unfinished(
        self, pieces: list[Piece], targets: dict[str, str], *, written: bool
    ) -> list[Piece]:
        """Return the pieces still to be done.

        Parameters
        ----------
        pieces : list of Piece
            All pieces.
        targets : dict of str to str
            Where the pieces of a file are joined, by its path; then they need no longer be there.
        written : bool
            Whether the repaired pieces are written at all.

        Returns
        -------
        list of Piece
        """
        joined = {path for path, target in targets.items() if Path(target).exists()}
        return [
            piece
            for piece in pieces
            if not self._list(piece).exists()
            or (written and piece.file not in joined and not self.target(piece).exists())
        ]

    def target(self, piece: Piece) -> Path:
        """Return where a repaired piece goes."""
        path = Path(self.path, piece.part)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def finish(self, piece: Piece, changes: dict[str, list], summary: dict[str, Any]) -> None:
        """Write the changes of a piece: from now on it is done."""
        table = _table(changes).replace_schema_metadata({_SUMMARY: json.dumps(summary)})
        with written_at_once(self._list(piece)) as file:
            import_optional("pyarrow.parquet").write_table(table, file)

    def summaries(self, pieces: list[Piece]) -> Iterator[dict[str, Any]]:
        """Yield what was found in every piece."""
        parquet = import_optional("pyarrow.parquet")
        for piece in pieces:
            yield json.loads(parquet.read_schema(self._list(piece)).metadata[_SUMMARY])

    def write_changes(self, pieces: list[Piece], sink) -> None:
        """Write the changes of all pieces as one Parquet file."""
        parquet = import_optional("pyarrow.parquet")
        schema = _table({name: [] for name in CHANGES_SCHEMA}).schema
        with parquet.ParquetWriter(sink, schema) as writer:
            for piece in pieces:
                table = parquet.read_table(self._list(piece)).replace_schema_metadata(None)
                if table.num_rows:
                    writer.write_table(table)

    def join_parts(self, files: Any, targets: dict[str, str]) -> None:
        """Make one CSV file of the repaired pieces of each, and remove the pieces.

        Parameters
        ----------
        files : CsvFiles
            The files.
        targets : dict of str to str
            Where every file goes, by its path.
        """
        for path, target in targets.items():
            mine = [piece for piece in files.pieces if piece.file == path]
            parts = [self.target(piece) for piece in mine]
            if Path(target).exists() and not all(part.exists() for part in parts):
                continue  # joined before the run was interrupted
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            with written_at_once(Path(target)) as sink, open(path, "rb") as source:
                sink.write(source.read(files.begin(path)))
                for part in parts:
                    with open(part, "rb") as content:
                        shutil.copyfileobj(content, sink, 1 << 22)
        shutil.rmtree(Path(self.path, _PARTS), ignore_errors=True)

    def remove(self) -> None:
        """Remove the folder and everything in it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _list(self, piece):
        return Path(self.path, _CHANGES, f"{piece.number:05d}.parquet")

    def _sweep(self):
        """Remove what killed writers left behind."""
        for path in Path(self.path).rglob(".*.aside"):
            path.unlink(missing_ok=True)

    def _remove(self, parts):
        """Remove the results of another run, and nothing else."""
        for name in (_CHANGES, _PARTS):
            shutil.rmtree(Path(self.path, name), ignore_errors=True)
        for name in (*parts, _MODEL, _LEARNED, _MANIFEST):
            Path(self.path, name).unlink(missing_ok=True)
        self._sweep()


def _read(manifest):
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
        lists = content["parts"], content["outputs"]
        if content["format"] == _FORMAT and all(isinstance(each, list) for each in lists):
            return content
    except (ValueError, KeyError, TypeError):
        pass
    raise TableError(f"{manifest} is damaged; name another output folder.")


def _table(columns):
    pyarrow = import_optional("pyarrow")
    kinds = {"string": pyarrow.string(), "int64": pyarrow.int64(), "bool": pyarrow.bool_(),
             "double": pyarrow.float64()}  # fmt: skip
    schema = pyarrow.schema([(name, kinds[kind]) for name, kind in CHANGES_SCHEMA.items()])
    return pyarrow.table(columns, schema=schema)


def aside_folder(path: str) -> str:
    """Return the folder in which the pieces of a single output file wait."""
    return os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.unpermute")
