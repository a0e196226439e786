"""
Theorem 1 beside simulation
===========================

How likely is the first entry that elimination removes a shuffled one? The paper's estimate, exact
variances, and simulation. :doc:`/errata` discusses the differences.
"""

import matplotlib.pyplot as plt

from unpermute.theory import (
    elimination_probability,
    expected_eta_variance,
    expected_xi_variance,
    simulate_elimination,
)

ranks = [2, 5, 10, 15, 20]
simulated = [
    simulate_elimination(50, rank, 20, n_draws=500, random_state=0).eliminated_shuffled.mean()
    for rank in ranks
]
variances = [(expected_xi_variance(50, r, 20), expected_eta_variance(50, r, 20)) for r in ranks]
fig, ax = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
ax.plot(ranks, simulated, "o-", color="#222222", label="simulated")
for version in ("theorem", "appendix", "assumptions"):
    curve = [elimination_probability(50, 20, *pair, version=version) for pair in variances]
    ax.plot(ranks, curve, label=version)
ax.set(xlabel="rank", ylabel="probability", ylim=(0.5, 1.01))
ax.legend(frameon=False)
