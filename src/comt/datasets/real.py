"""Real data: CPUSMALL (regression), IJCNN1 and the heart disease data of four hospitals (classification)."""

from __future__ import annotations

import io
import os
from collections.abc import Callable

import numpy as np

from comt.datasets._types import Array
from comt.datasets.files import PublicFile, read
from comt.datasets.table import Table, numbered

Folder = str | os.PathLike[str] | None

# Data hosts. The mirror is a second source for IJCNN1, should the first write the same numbers differently:
# whichever matches the hash is used.
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
_MIRROR = "https://raw.githubusercontent.com/X-DataInitiative/tick-datasets/master/binary/ijcnn1"
_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/heart-disease"

CPUSMALL = PublicFile(
    "cpusmall/cpusmall.txt.gz",
    "70d73c6efb2bcd873efe297388b9ee65a0b299cc6adc85ad246eb4899116313b",
    (f"{_LIBSVM}/regression/cpusmall",),
)
IJCNN1_TRAIN = PublicFile(
    "ijcnn1/ijcnn1.trn.bz2",
    "7fe291672c3fefe6a7e3c51529becd23f0e985ba05ffb8d53c9c648c1e91cc19",
    (f"{_LIBSVM}/binary/ijcnn1.bz2", f"{_MIRROR}/ijcnn1.trn.bz2"),
)
IJCNN1_TEST = PublicFile(
    "ijcnn1/ijcnn1.tst.bz2",
    "e7b0bbd518641980dc322746c6bc59d019d3153934e6258e48f9d8cfae2c4bb8",
    (f"{_LIBSVM}/binary/ijcnn1.t.bz2", f"{_MIRROR}/ijcnn1.tst.bz2"),
)
HOSPITALS = {
    name: PublicFile(f"heart_disease/processed.{name}.data", sha256, (f"{_UCI}/processed.{name}.data",))
    for name, sha256 in {
        "cleveland": "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",
        "hungarian": "d1ad108f785768cd3d7e82dc522e6f5a61eea93cccfb3a46ee8076f73fc3d796",
        "switzerland": "834a405ccf5b66ab4056bb77794adc8df0b7125186454c0a1d002d33c6c3b314",
        "va": "e7c93d8d0d2acdadfa4c5e8de768e2191e7f618b952e29623f1f0d5949ff6b8f",
    }.items()
}
_CPUSMALL_COLUMNS = (
    *("lread", "lwrite", "scall", "sread", "swrite", "fork"),
    *("exec", "rchar", "wchar", "runqsz", "freemem", "freeswap"),
)
_HEART_COLUMNS = (
    *("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg"),
    *("thalach", "exang", "oldpeak", "slope", "ca", "thal"),
)


def load_cpusmall(folder: Folder = None) -> Table:
    """Load CPUSMALL: 8,192 × 12, the share of time a computer spends in user mode (0..99)."""
    features, targets = _libsvm(CPUSMALL, len(_CPUSMALL_COLUMNS), folder)
    return Table("CPUSMALL", features, targets, "regression", _CPUSMALL_COLUMNS)


def load_ijcnn1(folder: Folder = None) -> Table:
    """Load IJCNN1: 49,990 × 22 with its own 91,701 test rows, 10 % positive.

    Its rows are overlapping windows of one series, so a random part of the training rows would be a test with
    leaks: ``federate`` tests on the test file.
    """
    features, targets = _libsvm(IJCNN1_TRAIN, 22, folder)
    test_features, test_targets = _libsvm(IJCNN1_TEST, 22, folder)
    return Table("IJCNN1", features, targets, "classification", numbered(22), test_features, test_targets)


def load_heart_disease(folder: Folder = None) -> Table:
    """Load the UCI heart disease data: 920 patients of four hospitals, +1 if disease was found (label > 0).

    Missing values: a column that some hospital lacks for more than half of its patients is dropped (fbs,
    slope, ca, thal); elsewhere a hospital fills in its own median, which needs no other hospital. Zeros that
    stand for "not measured" (chol: all of switzerland, a quarter of va) are left: they are bugs of the kind
    this package is about.
    """
    raw = [_with_missing(read(file, folder)) for file in HOSPITALS.values()]
    features = [rows[:, :-1] for rows in raw]
    kept = np.all([np.isnan(x).mean(axis=0) <= 0.5 for x in features], axis=0)
    filled = [np.where(np.isnan(x), np.nanmedian(x, axis=0), x) for x in (x[:, kept] for x in features)]
    return Table(
        "heart disease",
        np.concatenate(filled),
        np.concatenate([np.where(rows[:, -1] > 0, 1.0, -1.0) for rows in raw]),
        "classification",
        tuple(name for name, keep in zip(_HEART_COLUMNS, kept, strict=True) if keep),
        sites=np.repeat(np.arange(len(raw)), [len(rows) for rows in raw]),
        site_names=tuple(HOSPITALS),
    )


LOADERS: dict[str, Callable[..., Table]] = {
    "cpusmall": load_cpusmall,
    "ijcnn1": load_ijcnn1,
    "heart_disease": load_heart_disease,
}


def _libsvm(file: PublicFile, n_features: int, folder: Folder) -> tuple[Array, Array]:
    # scikit-learn takes a second to import, and generators do without it
    from sklearn.datasets import load_svmlight_file

    features, targets = load_svmlight_file(io.BytesIO(read(file, folder)), n_features=n_features)
    return np.asarray(features.toarray(), dtype=np.float64), np.asarray(targets, dtype=np.float64)


def _with_missing(text: bytes) -> Array:
    lines = text.decode("ascii").split()
    cells = [[np.nan if cell == "?" else float(cell) for cell in line.split(",")] for line in lines]
    return np.array(cells, dtype=np.float64)
