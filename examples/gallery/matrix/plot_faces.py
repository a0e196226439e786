"""
Images before and after
=======================

Similar images, such as one face under changing light, lie near a subspace. A square of shuffled
pixels breaks that, and the other images tell where the pixels belong. The images are faces
(Extended Yale B) if ``UNPERMUTE_DATA`` names a folder that holds them; otherwise they are the
handwritten digits of scikit-learn.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from unpermute import PMSDR
from unpermute.datasets import load_yale_faces
from unpermute.metrics import recovery_error

try:
    faces = load_yale_faces()
    chosen = (faces.target < 1) & ~faces.bad
    small = faces.images[chosen][:, ::3, ::3]  # every third pixel, to save time
    images, shape, side = small.reshape(len(small), -1), small.shape[1:], 7
except FileNotFoundError:
    digits = load_digits()
    images, shape, side = digits.data[digits.target < 2] / 16, (8, 8), 5
print(f"{len(images)} images of {shape[0]} x {shape[1]} pixels")

# %%
# In every fifth image, a square of pixels is shuffled.
rng = np.random.default_rng(0)
truth = images.astype(float)
observed = truth.copy()
shuffled = np.arange(0, len(truth), 5)
for row in shuffled:
    image = observed[row].reshape(shape).copy()
    top, left = (rng.integers(0, n - side + 1) for n in shape)
    square = image[top : top + side, left : left + side]
    image[top : top + side, left : left + side] = rng.permutation(square.ravel()).reshape(
        side, side
    )
    observed[row] = image.ravel()

model = PMSDR(output="blend", random_state=0)
repaired = model.fit_transform(observed)
print(f"relative error before: {recovery_error(truth[shuffled], observed[shuffled]):.2f}")
print(f"relative error after:  {recovery_error(truth[shuffled], repaired[shuffled]):.2f}")

# %%
# First row: observed images. Second row: repaired. Third row: the truth.
changed = shuffled[model.status_[shuffled] == "recovered"][:6]
fig, axes = plt.subplots(3, len(changed), figsize=(9, 4.8), layout="constrained", squeeze=False)
for line, (title, matrix) in enumerate(
    [("observed", observed), ("repaired", repaired), ("truth", truth)]
):
    for ax, row in zip(axes[line], changed, strict=True):
        ax.imshow(matrix[row].reshape(shape), cmap="gray")
        ax.set(xticks=[], yticks=[])
    axes[line, 0].set_ylabel(title)
