"""Lines with one field too many or too few, judged by the model of the other records.

A delimiter that should have stood in quotes splits a value in two: one of the neighbouring pairs of
fields is to be joined. A field that was lost leaves a gap: an empty one is to be inserted. Every
place makes a record, and the model of clean records says how likely each is; the probability of the
best among them is calibrated by trials on regular records that are broken the same way, and judged
by a model that has not seen them.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import narwhals.stable.v1 as nw
import numpy as np
from scipy.special import expit, logit, softmax
from sklearn.linear_model import LogisticRegression

from unpermute.files import INSERT, JOIN
from unpermute.records import read_cells, score_records

__all__ = ["MendedLine", "mend_lines"]

# Log-odds beyond which more evidence does not count.
_CLEAREST = 12.0
# Text that is split by a delimiter usually goes on with a space, and fields seldom begin with one.
_SPACED, _RARELY = 0.9, 1e-3
# Probability of a character in a text that is written as others are, and in any text; and of a text
# at least, so that logarithms stay finite.
_CHANCE, _ANY_CHARACTER, _LEAST = {"a": 1 / 26, "A": 1 / 26, "0": 1 / 10}, 1 / 64, 1e-300


@dataclass(frozen=True)
class MendedLine:
    """What would make a line regular.

    Attributes
    ----------
    kind : str
        JOIN: a field and the next one are one value. INSERT: an empty field is missing.
    column : int
        Of the joined value, or of the empty field.
    confidence : float
        Probability that this is right.
    """

    kind: str
    column: int
    confidence: float


def mend_lines(
    model,
    columns: Sequence[str],
    lines: Sequence[Sequence[str]],
    regular: Sequence[Sequence[str]],
    *,
    trial_model,
    delimiter: str,
    read: Callable,
    random_state: int = 0,
) -> list[MendedLine | None]:
    """Say how lines with one field too many or too few become regular.

    Parameters
    ----------
    model : TableModel
        Learned from the regular records.
    columns : sequence of str
        Names of the columns of the file.
    lines : sequence of sequences of str
        Fields of the lines.
    regular : sequence of sequences of str
        Fields of some regular records, for trials.
    trial_model : TableModel or None
        Learned without these, to judge the trials; None: there are none, and nothing is sure.
    delimiter : str
        What stands between fields.
    read : callable
        Makes a data frame of records, as the table was read.
    random_state : int, default=0
        Seed of the trials.

    Returns
    -------
    list of MendedLine or None
        None for lines that differ by more than one field.
    """
    given = list(columns), delimiter, read, regular
    judge = _Judge(model, *given)
    trials = None if trial_model is None else _Judge(trial_model, *given)
    mended: list[MendedLine | None] = [None] * len(lines)
    for kind, surplus in ((JOIN, 1), (INSERT, -1)):
        mine = [k for k, line in enumerate(lines) if len(line) == len(columns) + surplus]
        if mine:
            rng = np.random.default_rng(random_state)
            best, odds = judge.best(kind, [lines[k] for k in mine])
            confidence = trials.calibrated(kind, odds, rng) if trials else np.zeros(len(mine))
            for k, column, sure in zip(mine, best, confidence, strict=True):
                mended[k] = MendedLine(kind, int(column), float(sure))
    return mended


class _Judge:
    def __init__(self, model, columns, delimiter, read, regular):
        self._model, self._columns, self._delimiter = model, columns, delimiter
        self._read, self._regular = read, [list(fields) for fields in regular]
        spaced = [text.startswith(" ") for fields in regular for text in fields]
        self._spaced = float(np.clip(np.mean(spaced) if spaced else 0.0, _RARELY, 1 - _RARELY))
        # Columns that the model does not judge have their texts alone.
        judged = set(model.names)
        self._others = {
            j: _frequencies([fields[j] for fields in regular])
            for j, name in enumerate(columns)
            if name not in judged
        }

    def best(self, kind, lines):
        """Return the best place of every line, and the log-odds that it is the right one."""
        p = len(self._columns)
        records = [record for line in lines for record in self._candidates(kind, line)]
        scores = self._scores(records).reshape(-1, p)
        if kind == JOIN:
            # The delimiter may belong to the value or may have slipped in.
            bare = [record for line in lines for record in _joined(line, "")]
            scores = np.logaddexp(scores, self._scores(bare).reshape(-1, p))
            scores += np.array([[self._gap(line[j + 1]) for j in range(p)] for line in lines])
        probability = softmax(scores, axis=1)
        best = np.argmax(probability, axis=1)
        # Places that make the same record are one answer.
        same = np.zeros(len(lines))
        for i in range(len(lines)):
            mine = records[i * p : (i + 1) * p]
            same[i] = sum(probability[i, j] for j in range(p) if mine[j] == mine[best[i]])
        odds = logit(np.clip(same, 1e-9, 1 - 1e-9))
        return best, np.clip(odds, -_CLEAREST, _CLEAREST)

    def calibrated(self, kind, odds, rng):
        """Return the probability of being right, by trials."""
        broken, truth = self._broken(kind, rng)
        if len(broken) < 10:
            return np.zeros(len(odds))
        best, trial_odds = self.best(kind, broken)
        right = np.array(
            [
                self._candidates(kind, line)[j] == self._candidates(kind, line)[t]
                for line, j, t in zip(broken, best, truth, strict=True)
            ]
        )
        # One right and one wrong trial without evidence: trials never show certainty.
        x = np.concatenate([trial_odds, [0.0, 0.0]])[:, None]
        y = np.concatenate([right, [True, False]])
        curve = LogisticRegression(C=10.0).fit(x, y)
        slope, constant = max(float(curve.coef_[0, 0]), 0.0), float(curve.intercept_[0])
        return np.minimum(expit(odds), expit(slope * odds + constant))

    def _broken(self, kind, rng):
        """Return regular records with a value split in two or lost, and where."""
        lines, truth = [], []
        for fields in self._regular:
            long = [j for j, text in enumerate(fields) if len(text.strip()) >= 3]
            j = int(rng.choice(long)) if kind == JOIN and long else int(rng.integers(len(fields)))
            if kind == INSERT:
                lines.append(fields[:j] + fields[j + 1 :])
            elif long:
                spaces = [k for k in range(1, len(fields[j]) - 1) if fields[j][k] == " "]
                at = int(rng.choice(spaces)) if spaces else int(rng.integers(1, len(fields[j])))
                lines.append([*fields[:j], fields[j][:at], fields[j][at:], *fields[j + 1 :]])
            else:
                continue
            truth.append(j)
        return lines, truth

    def _candidates(self, kind, line):
        if kind == INSERT:
            return [[*line[:j], "", *line[j:]] for j in range(len(line) + 1)]
        return _joined(line, self._delimiter)

    def _gap(self, text):
        """Return how much more likely a split text goes on like this than a field begins."""
        if text.startswith(" "):
            return np.log(_SPACED / self._spaced)
        return np.log((1 - _SPACED) / (1 - self._spaced))

    def _scores(self, records):
        frame = nw.from_native(self._read(records), eager_only=True)
        cells, _ = read_cells(frame, self._model.names, self._model.kinds)
        scores = score_records(self._model.known, cells)
        for j, log_frequency in self._others.items():
            scores = scores + [log_frequency(fields[j]) for fields in records]
        return scores


def _joined(line, between):
    """Return the records in which a field and the next are one, for every field but the last."""
    return [
        [*line[:j], line[j] + between + line[j + 1], *line[j + 2 :]] for j in range(len(line) - 1)
    ]


def _frequencies(texts):
    """Return a function: the log-probability of a text, by its frequency and how it is written.

    A text may be one of those that occur again and again, or a new one written as others are, such
    as an identifier. Texts that occur once are taken for new: one of them may be the text itself.
    """
    counts, patterns = Counter(texts), Counter(map(_pattern, texts))
    n = len(texts)
    new = (sum(count == 1 for count in counts.values()) + 1) / (n + 2)

    def log_probability(text):
        again = counts[text] - 1 if counts[text] > 1 else 0
        pattern = _pattern(text)
        alike = patterns[pattern] / (n + 1) * np.prod([_CHANCE.get(c, 1.0) for c in pattern])
        any_text = _ANY_CHARACTER ** (len(text) + 1) / (n + 1)
        return np.log((1 - new) * again / (n + 1) + new * (alike + any_text) + _LEAST)

    return log_probability


def _pattern(text):
    return re.sub("[a-z]", "a", re.sub("[A-Z]", "A", re.sub("[0-9]", "0", text)))
