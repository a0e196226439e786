"""How much of a damaged table can be put back."""

from dataclasses import dataclass

__all__ = ["Structure"]


@dataclass(frozen=True)
class Structure:
    """How much of a damaged table can be put back.

    Attributes
    ----------
    weak : bool
        Whether most moved cells could not be put back.
    recoverability : float
        Expected share of the moved cells that is put back.
    sentence : str
        The same in plain words.
    """

    weak: bool
    recoverability: float
    sentence: str
