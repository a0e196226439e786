"""How often faces of a given confidence are right; needs the data (UNPERMUTE_DATA).

A recovered image is right if its fit is within 5% of the projection of the undamaged image, or
within the noise of a clean one if that is more.
"""

import argparse
import warnings
from itertools import pairwise

import numpy as np

from unpermute.experiments.faces import draw_faces, our_faces_method
from unpermute.pmsdr._accuracy import is_right
from unpermute.pmsdr._contrast import contrasts

EDGES = (0.0, 0.5, 0.8, 0.95, 1.0)


def judge(n_people, first, protocol, seed):
    """Return the confidence of every damaged image that was found, and whether it is right."""
    draw = draw_faces(range(first, first + n_people), protocol, seed)
    model = our_faces_method(n_people, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = model.fit_transform(draw.X)
    units = contrasts(draw.X)[:, None]
    right = is_right(
        fitted / units, draw.X_clean / units, model.labels_, model.bases_, model.noise_scale_
    )
    found = model.outlier_mask_ & draw.outlier_mask
    return model.confidence_[found], right[found]


def main():
    """Print one line per range of confidences."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, nargs="+", default=[2, 3, 5])
    parser.add_argument("--seeds", type=int, nargs="+", default=[101, 102])
    options = parser.parse_args()
    pairs = [
        judge(n_people, first, protocol, seed)
        for n_people in options.people
        for first in (0, 10, 20, 30)
        for protocol in ("run", "text")
        for seed in options.seeds
    ]
    confidence, right = map(np.concatenate, zip(*pairs, strict=True))
    print(f"{'confidence':>14}  {'images':>6}  {'mean':>5}  {'right':>5}")
    for low, high in pairwise(EDGES):
        mine = (confidence >= low) & ((confidence < high) | (high == 1.0))
        if mine.any():
            mean, share = confidence[mine].mean(), right[mine].mean()
            print(f"{low:6.2f} to {high:4.2f}  {mine.sum():6}  {mean:5.2f}  {share:5.2f}")


if __name__ == "__main__":
    main()
