from unpermute import PMSDR
from unpermute.datasets import make_permuted_subspaces
from unpermute.metrics import recovery_error

data = make_permuted_subspaces(3, 100, 40, 4, outlier_ratio=0.3, random_state=0)
model = PMSDR(random_state=0)
X_fixed = model.fit_transform(data.X)

found = model.outlier_mask_ & data.outlier_mask
print(f"shuffled vectors: {data.outlier_mask.sum()}, found: {found.sum()}")
print(f"not sure about: {(model.status_ == 'uncertain').sum()}")
print(f"relative error before: {recovery_error(data.X_clean, data.X):.3f}")
print(f"relative error after:  {recovery_error(data.X_clean, X_fixed):.3f}")
