"""Pictures of results, scikit-learn's way.

A *Display* holds the numbers of one picture. Make one with ``from_estimator``,
``from_predictions`` or ``from_result``; each draws at once, and ``plot`` draws it again on other
axes. matplotlib is imported when something is drawn (``pip install "unpermute[plot]"``).
"""

from unpermute.plot._confidence import ConfidenceDisplay
from unpermute.plot._recoverability import RecoverabilityDisplay
from unpermute.plot._repair import RepairDisplay
from unpermute.plot._subspace import SubspaceDisplay

__all__ = ["ConfidenceDisplay", "RecoverabilityDisplay", "RepairDisplay", "SubspaceDisplay"]
