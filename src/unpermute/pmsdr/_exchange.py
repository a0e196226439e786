r"""Which value belongs where: most stay, and the values that moved fill the places they left.

The EM takes a value that moved for one drawn from anywhere. But the values of a vector are still
all there, and every one of them is used once. With the prediction :math:`f_i` of entry i and its
variance :math:`v_i`, the value of entry i was :math:`y_g` with probability

.. math:: P_{ig} \propto u_g\, t_4\!\left(\frac{y_g - f_i}{\sqrt{v_i}}\right),
   \quad P_{ii} \propto (1 - q)\, t_4\!\left(\frac{y_i - f_i}{\sqrt{v_i}}\right),

where the masses :math:`u_g` are such that every value is expected to be used once (Sinkhorn's
scaling, with the probability of staying beside it). The mean under P has the least expected squared
error; the values moved are those whose order is that of the means.
"""

import math

import numpy as np
from numba import njit

__all__ = ["exchange", "log_arrangements", "sort_into"]

# Values closer to each other than this many standard deviations of the noise are one group, and
# groups farther from a prediction than so many are not considered: both bound the work. But the
# nearest groups on either side always are: a prediction that is far off needs a value, too.
_WIDTH, _REACH, _NEAREST = 0.5, 8.0, 4
# Sweeps at most, and the largest expected number of uses of a group too many or too few, over the
# root of how many there should be.
_SWEEPS, _BALANCED = 10, 0.1
# Negative logarithm of a probability that counts for nothing.
_NOTHING = 20.0


@njit(cache=True, nogil=True, error_model="numpy")
def exchange(Y, fitted, variance, share, mean, spread):
    """Expected value and variance of every entry; writes the last two.

    Parameters
    ----------
    Y, fitted, variance : ndarray of shape (n_vectors, n_features)
        Observed values, NaN where missing; predicted ones and their variances.
    share : ndarray of shape (n_vectors,)
        Share of the entries that moved.
    mean, spread : ndarray of shape (n_vectors, n_features)
        Expected values, and their expected squared errors.
    """
    for j in range(len(Y)):
        seen = np.flatnonzero(~np.isnan(Y[j]))
        if len(seen) < 2:
            continue
        y, f, v = Y[j][seen], fitted[j][seen], variance[j][seen]
        q = np.float32(min(max(share[j], 1.0 / len(seen)), 0.9))
        values, count, group = _group(y, _WIDTH * math.sqrt(np.median(v)))
        mass = q * count / np.float32(len(seen))
        reach = _REACH * np.sqrt(v)
        nearest = np.searchsorted(values, f)
        first = np.minimum(np.searchsorted(values, f - reach), nearest - _NEAREST)
        last = np.maximum(np.searchsorted(values, f + reach), nearest + _NEAREST)
        first, last = np.maximum(first, 0), np.minimum(last, len(values))
        start = np.zeros(len(seen) + 1, dtype=np.int64)
        start[1:] = np.cumsum(last - first)
        densities = np.empty(start[-1], dtype=np.float32)
        staying = np.empty(len(seen), dtype=np.float32)
        for i in range(len(seen)):
            centre, precision = np.float32(f[i]), np.float32(1.0 / v[i])
            staying[i] = (1 - q) * _density(np.float32(y[i]) - centre, precision)
            own = densities[start[i] : start[i + 1]]
            _fill(values[first[i] : first[i] + len(own)], centre, precision, own)
        _balance(staying, densities, start, first, group, mass)
        for i in range(len(seen)):
            own = densities[start[i] : start[i + 1]]
            near = slice(first[i], first[i] + len(own))
            away, by, squared = _moments(own, mass[near], values[near], y[i])
            # Moments about the observed value: staying adds nothing to them.
            by /= staying[i] + away
            mean[j, seen[i]] = y[i] + by
            spread[j, seen[i]] = max(squared / (staying[i] + away) - by * by, 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _group(y, width):
    """Groups of neighbouring values: their means and numbers, and the group of every place."""
    order, group = np.argsort(y), np.zeros(len(y), dtype=np.int64)
    values, count = np.zeros(len(y)), np.zeros(len(y), dtype=np.float32)
    g, lowest = 0, y[order[0]]
    for i in order:
        if y[i] > lowest + width:
            g, lowest = g + 1, y[i]
        group[i] = g
        values[g] += y[i]
        count[g] += 1
    return (values[: g + 1] / count[: g + 1]).astype(np.float32), count[: g + 1], group


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _density(error, precision):
    """t density with four degrees of freedom, up to a factor."""
    tail = np.float32(1.0) + np.float32(0.25) * error * error * precision
    return np.sqrt(precision / tail) / (tail * tail)


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _fill(values, centre, precision, densities):
    """Write the densities of values in one place."""
    for g in range(len(values)):
        densities[g] = _density(values[g] - centre, precision)


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _balance(staying, densities, start, first, group, mass):
    """Scale values until every one is expected to be used once; changes `staying` and `mass`."""
    n_groups = len(mass)
    wanted, scale = np.zeros(n_groups, dtype=np.float32), np.ones(n_groups, dtype=np.float32)
    for g in group:
        wanted[g] += 1
    used, stay = np.empty(n_groups, dtype=np.float32), np.empty(n_groups, dtype=np.float32)
    for _ in range(_SWEEPS):
        used[:], stay[:] = 0.0, 0.0
        for i in range(len(staying)):
            here, total = staying[i] * scale[group[i]], np.float32(1e-30)
            own, near = densities[start[i] : start[i + 1]], first[i]
            for g in range(len(own)):
                total += mass[near + g] * own[g]
            share = np.float32(1.0) / (here + total)
            stay[group[i]] += here * share
            for g in range(len(own)):
                used[near + g] += share * own[g]
        worst = np.float32(0.0)
        for g in range(n_groups):
            own_use = stay[g] + mass[g] * used[g]
            worst = max(worst, abs(wanted[g] - own_use) / math.sqrt(wanted[g]))
            ratio = (wanted[g] + np.float32(1e-6)) / (own_use + np.float32(1e-6))
            mass[g] *= ratio
            scale[g] *= ratio
        if worst <= _BALANCED:
            break
    for i in range(len(staying)):
        staying[i] *= scale[group[i]]


@njit(cache=True, nogil=True, fastmath=True, error_model="numpy")
def _moments(densities, mass, values, origin):
    """Mass of the moves to a place, and their first and second moments about an origin."""
    total, first, second = 1e-30, 0.0, 0.0
    for g in range(len(values)):
        weight, away = mass[g] * densities[g], values[g] - origin
        total += weight
        first += weight * away
        second += weight * away * away
    return total, first, second


@njit(cache=True, nogil=True, error_model="numpy")
def sort_into(Y, fitted, away, permutations):
    """Match sorted values to sorted predictions among the places `away`; writes the last."""
    for j in range(len(Y)):
        places = np.flatnonzero(away[j])
        if len(places) > 1:
            wanted = np.argsort(fitted[j][places], kind="mergesort")
            offered = np.argsort(Y[j][places], kind="mergesort")
            for i in range(len(places)):
                permutations[j, places[wanted[i]]] = places[offered[i]]


@njit(cache=True, nogil=True, error_model="numpy")
def log_arrangements(Y, fitted, variance, permutations):
    """Logarithm of the number of arrangements that a repair was chosen from, ties counted once.

    There are C(M, k) sets of k moved places. Of the k values, those within the noise of what is
    predicted for a place would have done as well there as the one that it got.
    """
    n, n_features = Y.shape
    cost = np.zeros(n)
    for j in range(n):
        k = 0
        places = np.empty(n_features, dtype=np.int64)
        for i in range(n_features):
            if permutations[j, i] != i:
                places[k] = i
                k += 1
        total = math.lgamma(n_features + 1.0) - math.lgamma(k + 1.0)
        total -= math.lgamma(n_features - k + 1.0)
        offered = Y[j][places[:k]]
        offered = offered[~np.isnan(offered)]
        if len(offered) > 0:
            width = _WIDTH * math.sqrt(np.median(variance[j][places[:k]]))
            values, count, _ = _group(offered, width)
        for a in range(k):
            i = places[a]
            f, v = fitted[j, i], max(2.0 * variance[j, i], 1e-300)
            own = (Y[j, permutations[j, i]] - f) ** 2 / v
            as_good = 0.0
            if own == own:
                # Values much farther off than the one that was taken count for nothing.
                reach = math.sqrt((own + _NOTHING) * v)
                first = np.searchsorted(values, f - reach)
                last = np.searchsorted(values, f + reach)
                for g in range(first, last):
                    as_good += count[g] * math.exp(min(own - (values[g] - f) ** 2 / v, 0.0))
            total += math.log(k / max(as_good, 1.0))
        cost[j] = total
    return cost
