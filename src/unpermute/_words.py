"""Words for numbers in the sentences that people read."""

__all__ = ["counted"]


def counted(n: int, thing: str) -> str:
    """Return a number of things, one of which is no plural.

    Examples
    --------
    >>> from unpermute._words import counted
    >>> counted(1, "column"), counted(1200, "column")
    ('1 column', '1,200 columns')
    """
    return f"{n:,} {thing}" if n == 1 else f"{n:,} {thing}s"
