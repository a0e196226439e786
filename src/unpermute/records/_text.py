r"""Probability of a text in a column: its pattern, and its characters given the pattern.

The pattern replaces every digit by 9, every lower-case letter by a and every capital by A. Patterns
have the probabilities of Kneser and Ney over a chain of classes; characters follow each other as
they do in the distinct texts of the column, given the class of the character.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

__all__ = ["TextModel", "Texts", "fit_texts", "kneser_ney", "prepare_texts"]

# Characters: 0 opens a text, 1 … 96 are those from the blank on, 97 closes it.
_N_CHARACTERS = 98
# Classes of characters: digit, small letter, capital, and every other character on its own.
_DIGIT, _SMALL, _CAPITAL = 1, 2, 3
_N_CLASSES = 4 + _N_CHARACTERS
# Characters of a text that are looked at: more of them repeat the same evidence.
_LONGEST = 40
# Weight of the prior expectation, in occurrences, for classes and for characters.
_CLASS_WEIGHT, _CHARACTER_WEIGHT = 0.05, 3.0
# Least log-probability of a text, so that differences stay finite.
_LOWEST = -500.0


def kneser_ney(counts, total, n_distinct, n_once, n_twice, base, strength=0.5):
    r"""Probability of values that were seen `counts` times among `total`.

    .. math:: p(v) = \frac{\max(k - \delta, 0) + (\delta D + \theta)\, b(v)}{n + \theta}, \qquad
              \delta = \frac{n_1}{n_1 + 2 n_2} \in [0.3, 0.99],

    with D distinct values, n₁ of them seen once and n₂ twice, and b the probability of a value that
    is drawn anew.
    """
    discount = np.clip(n_once / np.maximum(n_once + 2 * n_twice, 1e-9), 0.3, 0.99)
    new = (discount * n_distinct + strength) / (total + strength)
    return np.maximum(counts - discount, 0) / (total + strength) + new * base


@dataclass(frozen=True)
class Texts:
    """Distinct texts, as characters and as patterns; rows of `pattern` index `patterns`."""

    characters: np.ndarray
    starts: np.ndarray
    pattern: np.ndarray
    patterns: list[str]
    pattern_classes: np.ndarray
    pattern_starts: np.ndarray

    def __len__(self):
        return len(self.starts)


@dataclass(frozen=True)
class TextModel:
    """What was learned from the distinct texts of a column."""

    patterns: Counter
    log_chain: np.ndarray
    log_characters: np.ndarray

    def log_probability(self, texts):
        """Return the log-probability of every text."""
        chain = _sum_of_steps(texts.pattern_classes, texts.pattern_starts, self.log_chain)
        counts = np.array([self.patterns.get(pattern, 0) for pattern in texts.patterns], float)
        seen = np.array(list(self.patterns.values()))
        patterns = kneser_ney(
            counts, seen.sum(), len(seen), np.sum(seen == 1), np.sum(seen == 2),
            np.exp(np.maximum(chain, _LOWEST)), strength=1.0,
        )  # fmt: skip
        written = _sum_of_steps(texts.characters, texts.starts, self.log_characters)
        return np.maximum(np.log(patterns + 1e-300)[texts.pattern] + written, _LOWEST)


def prepare_texts(texts):
    """Split texts into characters and patterns."""
    texts = [text[:_LONGEST] for text in texts]
    patterns, pattern = np.unique([_pattern(text) for text in texts], return_inverse=True)
    characters, starts = _joined([_encoded(text) for text in texts])
    written, pattern_starts = _joined([_encoded(text) for text in patterns.tolist()])
    return Texts(characters, starts, pattern, patterns.tolist(), _CLASS_OF[written], pattern_starts)


def fit_texts(texts, chosen):
    """Learn from the `chosen` ones (indices) of prepared texts."""
    used = np.zeros(len(texts), dtype=bool)
    used[chosen] = True
    patterns = Counter(texts.patterns[k] for k in texts.pattern[chosen])
    drawn = np.zeros(len(texts.patterns), dtype=bool)
    drawn[texts.pattern[chosen]] = True
    chain = _count_pairs(texts.pattern_classes, texts.pattern_starts, drawn, _N_CLASSES)
    chain += _CLASS_WEIGHT
    # A column has some 40 classes of characters to choose from.
    log_chain = np.log(
        chain / (chain.sum(axis=1, keepdims=True) - _CLASS_WEIGHT * (_N_CLASSES - 40))
    )
    pairs = _count_pairs(texts.characters, texts.starts, used, _N_CHARACTERS)
    single = pairs.sum(axis=0)
    of_class = np.bincount(_CLASS_OF, weights=single, minlength=_N_CLASSES)
    size = np.bincount(_CLASS_OF, minlength=_N_CLASSES)
    expected = (single + 0.5) / (of_class[_CLASS_OF] + 0.5 * size[_CLASS_OF])
    one_hot = np.zeros((_N_CHARACTERS, _N_CLASSES))
    one_hot[np.arange(_N_CHARACTERS), _CLASS_OF] = 1.0
    to_class = (pairs @ one_hot)[:, _CLASS_OF]
    log_characters = np.log((pairs + _CHARACTER_WEIGHT * expected) / (to_class + _CHARACTER_WEIGHT))
    return TextModel(patterns, log_chain, log_characters)


def _class_of(code):
    character = chr(code + 31)
    if character.isdigit():
        return _DIGIT
    if character.islower():
        return _SMALL
    return _CAPITAL if character.isupper() else 4 + code


_CLASS_OF = np.array([_class_of(code) for code in range(_N_CHARACTERS)])


def _pattern(text):
    return "".join(map(_pattern_of, text))


def _pattern_of(character):
    if character.isdigit():
        return "9"
    if character.isupper():
        return "A"
    # Letters beyond ASCII without case, and all other signs there, count as letters.
    return "a" if character.islower() or character >= "\x7f" else character


def _encoded(text):
    return [0, *(min(max(ord(character) - 31, 1), 96) for character in text), 97]


def _joined(lists):
    if not lists:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    starts = np.cumsum([0] + [len(part) for part in lists])[:-1]
    return np.concatenate(lists).astype(np.int64), starts


def _inner(codes, starts):
    """Which steps from one code to the next stay within a text."""
    inner = np.ones(max(len(codes) - 1, 0), dtype=bool)
    inner[starts[1:] - 1] = False
    return inner


def _count_pairs(codes, starts, used, size):
    """How often a code follows another in the texts that are used."""
    if not len(codes):
        return np.zeros((size, size))
    lengths = np.diff(np.append(starts, len(codes)))
    steps = _inner(codes, starts) & np.repeat(used, lengths)[1:]
    pairs = (codes[:-1] * size + codes[1:])[steps]
    return np.bincount(pairs, minlength=size * size).reshape(size, size).astype(float)


def _sum_of_steps(codes, starts, table):
    """Sum of the table over the steps within every text."""
    if not len(codes):
        return np.zeros(0)
    steps = np.zeros(len(codes))
    steps[1:] = np.where(_inner(codes, starts), table[codes[:-1], codes[1:]], 0.0)
    return np.add.reduceat(steps, starts)
