"""The shape of the package: who may import whom, what is public, and what its docstrings hold."""

import ast
import functools
import importlib
import inspect
import subprocess
import sys
from dataclasses import is_dataclass
from pathlib import Path

import pytest
from numpydoc.validate import validate

import unpermute

ROOT = Path(unpermute.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# A module may import from its own line and from the lines above it, never from below.
LAYERS = [
    {"_kernel_cache", "_lazy", "_validation", "_progress", "_shown", "_unfinished", "_words"},
    {"numerics"},
    {"datasets", "metrics", "theory"},
    {"detect"},
    {"cluster"},
    {"recover"},
    {"classify"},
    {"pmsdr"},
    {"baselines"},
    {"stream"},
    {"files"},
    {"records"},
    {"columns"},
    # Pictures and pages of a result know its shape only, so that a result can offer them.
    {"report", "plot"},
    {"table"},
    {"large"},
    {"distributed"},
    {"experiments"},
    {"web"},
    {"cli"},
    {"__main__"},
]
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}

# Imports of another package's private modules that are still to be removed.
STILL_PRIVATE: dict[str, set[str]] = {}

PROMISED = {
    "unpermute": ["PMSDR", "on_progress"],
    "unpermute.detect": ["SelfRepresentationDetector"],
    "unpermute.cluster": [
        "ElasticNetSubspaceClustering",
        "OMPSubspaceClustering",
        "SelfRepresentationClustering",
        "ShapeInteractionClustering",
        "SparseSubspaceClustering",
    ],
    "unpermute.theory": [
        "concentration_constant",
        "elimination_probability",
        "entry_moments",
        "eta_variance_approximation",
        "eta_variance_lower_bound",
        "expected_eta_variance",
        "expected_xi_variance",
        "log_determinant_moment",
        "log_multivariate_gamma",
        "maximum_location",
        "maximum_scale",
        "power_mean",
        "projection_moment",
        "recoverability",
        "residual_variances",
        "simulate_elimination",
        "trace_moments",
        "xi_variance_concentration",
        "xi_variance_upper_bound",
    ],
    "unpermute.classify": ["EliminationClassifier", "RecoveryClassifier"],
    "unpermute.recover": [
        "RecoveryResult",
        "recover_everywhere",
        "recover_vectors",
    ],
    "unpermute.baselines": [
        "MRUC",
        "UPCA",
        "LowRankRepresentation",
        "PerSubspace",
        "RobustKernelPCA",
        "RobustPCA",
        "SSCReconstruction",
    ],
    "unpermute.datasets": [
        "load_benign_tumours",
        "load_hopkins155",
        "load_student_scores",
        "load_yale_faces",
        "make_permuted_subspaces",
    ],
    "unpermute.table": [
        "AuditResult",
        "TableModel",
        "TableResult",
        "audit",
        "learn",
        "repair",
        "scan",
    ],
    "unpermute.report": ["render_card", "render_report", "write_report"],
    "unpermute.plot": [
        "ConfidenceDisplay",
        "RecoverabilityDisplay",
        "RepairDisplay",
        "SubspaceDisplay",
    ],
    "unpermute.stream": ["Part", "fit", "read_blocks", "read_results", "transform"],
    "unpermute.distributed": ["fit", "repair_table", "scan_table", "transform"],
    "unpermute.large": ["FilesResult", "repair_table", "scan_table"],
    "unpermute.metrics": [
        "outlier_classification_error",
        "permutation_error_ratio",
        "recovery_error",
        "subspace_clustering_error",
        "undetected_outlier_ratio",
    ],
}

# Missing docstring, summary, parameters, types, descriptions, or returned values.
NUMPYDOC_CODES = {
    *("GL08", "SS01", "SS02", "SS03", "SS06"),
    *("PR01", "PR02", "PR03", "PR04", "PR07"),
    *("RT01", "RT03"),
}


def _name(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = [_name(path) for path in FILES]


def _imports(path):
    """Yield the line and the dotted name of everything a file imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno}: import by the absolute name"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _layer(name):
    """Layer of a dotted name; None for other packages, and for `unpermute.__version__`."""
    parts = name.split(".")
    if parts[0] != "unpermute" or parts[1:] in ([], ["__version__"]):
        return None
    return {"PMSDR": "pmsdr", "on_progress": "_progress"}.get(parts[1], parts[1])


# The first file is the package's own __init__, which hands out names of any layer.
@pytest.mark.parametrize("path", FILES[1:], ids=MODULES[1:])
def test_imports_point_upwards(path):
    own = _layer(_name(path))
    assert own in HEIGHT, f"{own} has no place in LAYERS yet"
    for line, name in _imports(path):
        layer = _layer(name)
        if layer is not None:
            assert layer in HEIGHT, f"{path.name}:{line}: {name} has no place in LAYERS"
            assert HEIGHT[layer] <= HEIGHT[own], f"{path.name}:{line}: {own} must not use {name}"


def test_layers_know_the_order_they_enforce(tmp_path):
    file = tmp_path / "wrong.py"
    file.write_text("def f():\n    from unpermute.recover import recover_vectors\n")
    [(line, name)] = _imports(file)
    assert line == 2
    assert HEIGHT[_layer(name)] > HEIGHT[_layer("unpermute.numerics.subspaces")]
    assert _layer("unpermute.PMSDR") == "pmsdr"
    assert _layer("numpy.linalg") is None


def _private_module(name):
    """Package and private module of a dotted name, as in "recover._l1"; None if it is public."""
    parts = name.split(".")
    if parts[0] == "unpermute" and len(parts) > 2 and parts[2][0] == "_" and parts[2][1] != "_":
        return ".".join(parts[1:3])
    return None


def _foreign_private_modules(path, own):
    """Yield the line and the name of every private module of another package."""
    for line, name in _imports(path):
        module = _private_module(name)
        if module is not None and module.split(".")[0] != own:
            yield line, module


@pytest.mark.parametrize("path", FILES[1:], ids=MODULES[1:])
def test_packages_use_only_what_others_make_public(path):
    own = _layer(_name(path))
    for line, module in _foreign_private_modules(path, own):
        known = module in STILL_PRIVATE.get(own, ())
        package = module.split(".")[0]
        assert known, f"{path.name}:{line}: {module} is private; have {package}/__init__ export it"


def test_exceptions_that_are_no_longer_needed_are_removed():
    used = {(own, module) for path in FILES[1:] for own in [_layer(_name(path))]
            for _, module in _foreign_private_modules(path, own)}  # fmt: skip
    listed = {(own, module) for own, modules in STILL_PRIVATE.items() for module in modules}
    assert not listed - used


def test_private_modules_are_known_by_their_names():
    assert _private_module("unpermute.recover._l1.l1_coefficients") == "recover._l1"
    assert _private_module("unpermute.experiments._registry") == "experiments._registry"
    assert _private_module("unpermute.recover.l1_coefficients") is None
    assert _private_module("unpermute._validation.check_basis") is None
    assert _private_module("numpy._core.umath") is None


def test_no_module_is_called_utils():
    assert not [name for name in MODULES if "utils" in name.split(".")]


@pytest.mark.parametrize("module", PROMISED)
def test_promised_names_are_public(module):
    imported = importlib.import_module(module)
    for name in PROMISED[module]:
        assert hasattr(imported, name)
        assert name in imported.__all__


# Names in `__all__` that are neither promised nor imported elsewhere: types and parts of what is.
PARTS = {
    "unpermute.detect": {"split_log_scores"},
    "unpermute.recover": {"FoundVectors", "RIGHT", "expected_error", "found_probability"},
    "unpermute.stream": {"BlockReader"},
    "unpermute.large": {"Block", "Job", "Piece", "TableFiles"},
}


@functools.cache
def _all_imports():
    """Every imported name, with the layer of the file that imports it."""
    return {(_layer(_name(path)), name) for path in FILES for _, name in _imports(path)}


@pytest.mark.parametrize("module", PROMISED)
def test_every_other_public_name_is_for_another_package(module):
    """A name for users is promised: then the reference lists it, and it has an example."""
    known = {f"{module}.{name}" for name in PROMISED[module]} | set(PROMISED) | set(MODULES)
    known |= {f"{module}.{name}" for name in PARTS.get(module, ())}
    known |= {name for layer, name in _all_imports() if layer != _layer(module)}
    names = importlib.import_module(module).__all__
    unknown = [name for name in names if name[0] != "_" and f"{module}.{name}" not in known]
    assert not unknown, f"{unknown}: promise them in PROMISED, or take them out of __all__"


@pytest.mark.parametrize("module", MODULES)
def test_all_holds_existing_names(module):
    imported = importlib.import_module(module)
    for name in getattr(imported, "__all__", []):
        assert isinstance(name, str)
        assert hasattr(imported, name)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'PMSDRR'"):
        unpermute.PMSDRR  # noqa: B018


@pytest.mark.parametrize(
    "code",
    [
        "import unpermute",
        "import sys; sys.argv = ['unpermute', '--help']\n"
        "from unpermute.cli import main\n"
        "try: main()\n"
        "except SystemExit as stop: assert not stop.code",
    ],
    ids=["import", "help"],
)
def test_heavy_packages_load_only_when_needed(code):
    check = "import sys; print(sorted({'numpy', 'sklearn', 'numba'} & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", f"{code}\n{check}"], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "[]"


UNUSED_OF_SCIPY = ("ndimage", "optimize", "sparse", "spatial", "stats")


def test_data_frames_are_repaired_without_other_packages():
    """Polars need not be installed; the others would take a second to import."""
    others = ["polars", "sklearn", *(f"scipy.{name}" for name in UNUSED_OF_SCIPY)]
    code = (
        f"import sys; sys.modules |= dict.fromkeys({others})\n"
        "import numpy as np, pandas as pd\n"
        "from unpermute.table import repair\n"
        "print(len(repair(pd.DataFrame({c: np.arange(60.0) ** 0.5 for c in 'abc'})).frame))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == "60"


def _public_objects():
    for module, names in PROMISED.items():
        for name in names:
            yield f"{module}.{name}"
            thing = getattr(importlib.import_module(module), name, None)
            if inspect.isclass(thing):
                methods = (key for key, value in vars(thing).items() if inspect.isfunction(value))
                yield from (f"{module}.{name}.{key}" for key in methods if key[0] != "_")


def test_public_docstrings_are_complete():
    problems = [
        f"{name}: {code} {message}"
        for name in _public_objects()
        for code, message in validate(name)["errors"]
        # What a result holds is said once, as attributes.
        if code in NUMPYDOC_CODES - ({"PR01"} if _is_result(name) else set())
    ]
    assert not problems, "\n".join(problems)


def _is_result(name):
    module, _, last = name.rpartition(".")
    return module in PROMISED and is_dataclass(getattr(importlib.import_module(module), last))


def test_every_module_says_what_it_is():
    missing = [n for p, n in zip(FILES, MODULES, strict=True) if not _docstring(p)]
    assert not missing


def _docstring(path):
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_constant_is_assigned_twice(path):
    names = [
        name.id
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        for name in ast.walk(target)
        if isinstance(name, ast.Name) and name.id.isupper()
    ]
    assert len(names) == len(set(names))
