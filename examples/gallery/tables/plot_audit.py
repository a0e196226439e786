"""
How much of a shuffled release can be undone
============================================

A table is released after one column was shuffled between some of its rows. An attacker uses the
other columns to link the values again. The more columns predict the shuffled one, the more rows
come back.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from unpermute.table import audit

rng = np.random.default_rng(0)
age, years = rng.uniform(20, 65, 400), rng.uniform(0, 30, 400)
staff = pd.DataFrame({"age": age, "years": years, "hours": rng.uniform(20, 40, 400)})
exact = 1500 + 40 * age + 60 * years + 30 * staff["hours"]

# %%
# Salaries that follow from the other columns up to some noise; half of the rows are shuffled.
noises, shares = [0, 20, 60, 200, 600], []
for noise in noises:
    staff["salary"] = exact + noise * rng.standard_normal(400)
    result = audit(staff, ["salary"], ratio=0.5, n_trials=3)
    shares.append(result.table.iloc[0][["value", "low", "high", "baseline"]].to_numpy(dtype=float))
value, low, high, guessing = np.array(shares).T

fig, ax = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
ax.errorbar(range(5), value, yerr=[value - low, high - value], fmt="o-", capsize=3, label="attack")
ax.plot(range(5), guessing, "--", color="#9a9a9a", label="guessing")
ax.set_xticks(range(5), [f"{noise}" for noise in noises])
ax.set(xlabel="noise of the salary", ylabel="share of moved rows re-linked", ylim=(0, 1.02))
ax.legend(frameon=False)

# %%
# The last audit in words, with advice:
print(result.summary["sentence"])
for sentence in result.advice:
    print("-", sentence)
