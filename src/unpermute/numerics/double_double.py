r"""Residuals and inner products in twice the precision of float64.

A number is the unevaluated sum of two float64, a high and a low part, with some 32 digits between
them. Whatever is left of large terms that cancel is then right to the last digit of float64.

The errors that the kernels compute exactly are zero in the eyes of an optimiser that may reorder
sums. Hence the explicit ``fastmath=False``: without it a kernel takes over the setting of whichever
kernel was the first to call it.

References
----------
Dekker, "A floating-point technique for extending the available precision", Numerische Mathematik
1971.
Ogita, Rump & Oishi, "Accurate sum and dot product", SIAM J. Sci. Comput. 2005.
"""

from numba import njit

__all__ = ["add", "double_dot", "double_residual", "product"]

# Splits 53 digits into two halves of at most 26.
_SPLITTER = 134217729.0


@njit(cache=True, nogil=True, fastmath=False)
def _sum(a, b):
    """The float64 a + b, and its error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@njit(cache=True, nogil=True, fastmath=False)
def product(a, b):
    """The float64 a * b, and its error."""
    scaled = _SPLITTER * a
    a_high = scaled - (scaled - a)
    a_low = a - a_high
    scaled = _SPLITTER * b
    b_high = scaled - (scaled - b)
    b_low = b - b_high
    result = a * b
    return result, a_low * b_low - (((result - a_high * b_high) - a_low * b_high) - a_high * b_low)


@njit(cache=True, nogil=True, fastmath=False)
def add(high, low, other, other_low=0.0):
    """(high + low) + (other + other_low)."""
    total, error = _sum(high, other)
    return _sum(total, error + (low + other_low))


@njit(cache=True, nogil=True, fastmath=False)
def double_dot(a, b, b_low):
    """Inner product of a with b + b_low."""
    high, low = 0.0, 0.0
    for d in range(len(a)):
        term, error = product(a[d], b[d])
        high, low = add(high, low, term, error + a[d] * b_low[d])
    return high, low


@njit(cache=True, nogil=True, fastmath=False)
def double_residual(X, j, active, coef, coef_low, size, residual, residual_low):
    """Write x_j - sum of the active vectors, times coef + coef_low, into the residual."""
    for d in range(len(residual)):
        high, low = X[j, d], 0.0
        for a in range(size):
            x = X[active[a], d]
            term, error = product(-coef[a], x)
            high, low = add(high, low, term, error - coef_low[a] * x)
        residual[d], residual_low[d] = high, low
