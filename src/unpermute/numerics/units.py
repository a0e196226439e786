"""Values near the ends of what float64 holds, in units whose squares can be computed."""

import numpy as np

__all__ = ["in_unit", "restored", "unit_of"]

# Exponents of two up to which fourth powers of values can be computed.
_SAFE = 200


def unit_of(*arrays):
    """Return a power of two near the largest magnitude, 1.0 if that is nothing special.

    Dividing by a power of two rounds nothing, so that a matrix times 1e300 gives the answer of the
    matrix itself.

    Examples
    --------
    >>> import numpy as np
    >>> from unpermute.numerics.units import unit_of
    >>> unit_of(np.array([3.0, np.nan])), unit_of(np.array([1e-300])) == 2.0**-997
    (1.0, True)
    """
    largest = max((np.nanmax(np.abs(a), initial=0.0) for a in arrays if a is not None), default=0.0)
    exponent = int(np.frexp(largest)[1]) if 0 < largest < np.inf else 0
    return float(2.0 ** max(exponent - 1, -1022)) if abs(exponent) > _SAFE else 1.0


def in_unit(X, unit):
    """Return `X` in a unit of :func:`unit_of`; what is too small for it becomes zero."""
    if unit == 1.0:
        return X
    with np.errstate(under="ignore"):
        return X / unit


def restored(X, scaled, fixed, unit):
    """Return `fixed`, which was computed from ``scaled = X / unit``, in the unit of `X`."""
    if unit == 1.0:
        return fixed
    # Values that stayed in their place are those of X, also where the unit was too large for them.
    stayed = (fixed == scaled) | (np.isnan(fixed) & np.isnan(scaled))
    with np.errstate(over="ignore", under="ignore"):
        return np.where(stayed, X, fixed * unit)
