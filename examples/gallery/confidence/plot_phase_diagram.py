"""
Where recovery is possible
==========================

Low rank, few moved entries and little noise make recovery easy. The border is sharp:
:func:`unpermute.theory.recoverability` tells on which side a problem lies, before anything is
tried.
"""

import matplotlib.pyplot as plt

from unpermute.plot import RecoverabilityDisplay

fig, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
for ax, snr_db in zip(axes, [40, 30, 20], strict=True):
    RecoverabilityDisplay.from_formula(50, snr_db=snr_db, ax=ax)
    ax.set_title(f"50 entries, noise {snr_db} dB below the vector")
