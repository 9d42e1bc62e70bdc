"""Models as files: exact round trips, no rows inside, nothing executed, damage refused in one sentence."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import comt
from comt import CoMTClassifier, CoMTRegressor, InputError
from comt.model_file import TaughtModel
from comt.preparation import KNEE, Preparation
from teaching import is_one_sentence


def table_of(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 3)), columns=["row", "score", "prediction"]).assign(constant=5.0)
    return X, X["row"] - 2 * X["score"] + 0.1 * rng.normal(size=n), np.arange(n) % 3, np.arange(n) < 12


def fitted(kind, **parameters):
    X, y, agents, trusted = table_of()
    target = y if kind is CoMTRegressor else np.where(y > 0, "ill", "well")
    return kind(**parameters).fit(X, target, agents=agents, trusted=trusted), X


@pytest.mark.parametrize("kind", [CoMTRegressor, CoMTClassifier])
@pytest.mark.parametrize("parameters", [{}, {"fit_intercept": False, "standardize": False, "lambda_z": np.float64(50)}])
def test_a_model_comes_back_exactly(tmp_path, kind, parameters):
    model, X = fitted(kind, **parameters)
    model.save(tmp_path / "model.json")
    loaded = comt.load(tmp_path / "model.json")
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]
    for mine, its in ((loaded.coef, model.coef_), (loaded.theta, model.theta_), (loaded.r, model.r_)):
        np.testing.assert_array_equal(mine, np.ravel(its))
    assert loaded.intercept == np.ravel(model.intercept_)[0]
    np.testing.assert_array_equal(loaded.preparation.scale, model._training.preparation.scale)
    assert loaded.preparation.fingerprint == model._training.preparation.fingerprint
    assert np.isinf(loaded.preparation.scale[3]) == (not parameters)  # the constant column
    assert loaded.parameters == {k: v for k, v in model.get_params().items() if k not in ("verbose", "warm_start")}
    assert loaded.columns == ("row", "score", "prediction", "constant")
    assert loaded.provenance["agents"] == [{"name": str(i), "rows": 40, "trusted_rows": 4} for i in range(3)]
    assert loaded.provenance["rounds"] == model.n_rounds_
    assert loaded.provenance["certificate"] == model.certificate_
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.predict(X.iloc[:, ::-1]), model.predict(X))  # by name, not by place
    np.testing.assert_array_equal(loaded.predict(X.to_numpy()), model.predict(X))
    again = tmp_path / "again.json"
    loaded.save(again)
    assert again.read_bytes() == (tmp_path / "model.json").read_bytes()


@pytest.mark.parametrize("kind", [CoMTRegressor, CoMTClassifier])
def test_scikit_learn_predicts_the_same(tmp_path, kind):
    model, X = fitted(kind)
    model.save(tmp_path / "model.json")
    loaded = comt.load(tmp_path / "model.json")
    plain = loaded.to_sklearn()
    assert type(plain).__module__.startswith("sklearn.")
    assert plain.n_features_in_ == 4
    assert list(plain.feature_names_in_) == list(X.columns)
    if kind is CoMTRegressor:
        np.testing.assert_allclose(plain.predict(X), model.predict(X), rtol=0, atol=1e-12)
        with pytest.raises(InputError, match="no probabilities"):
            loaded.predict_proba(X)
    else:
        assert list(plain.classes_) == ["ill", "well"]
        assert (plain.predict(X) == model.predict(X)).all()
        np.testing.assert_allclose(plain.predict_proba(X), loaded.predict_proba(X), rtol=0, atol=1e-12)
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("labels", [(0, 1), (False, True), (-1.0, 2.0), ("=a", "ü")])
def test_labels_keep_their_kind(tmp_path, labels):
    X, y, _, trusted = table_of()
    model = CoMTClassifier().fit(X.to_numpy(), np.array(labels)[(y > 0).astype(int)], trusted=trusted)
    model.save(tmp_path / "model.json")
    loaded = comt.load(tmp_path / "model.json")
    assert loaded.classes == labels
    assert loaded.columns is None  # arrays have no names
    assert not hasattr(loaded.to_sklearn(), "feature_names_in_")
    assert loaded.predict(X.to_numpy()).dtype == model.predict(X.to_numpy()).dtype
    assert (loaded.predict(X.to_numpy()) == model.predict(X.to_numpy())).all()


finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=60)
@given(st.lists(finite, min_size=2, max_size=2), finite, st.lists(st.floats(allow_nan=False), min_size=2, max_size=2))
def test_every_number_comes_back_bit_by_bit(tmp_path_factory, coef, intercept, scale):
    path = tmp_path_factory.mktemp("model") / "model.json"
    preparation = Preparation(np.array(coef), np.array(scale))
    theta = np.array(coef[::-1])
    model = TaughtModel("regression", None, ("a", "b"), np.array(coef), intercept, preparation, theta, theta, {}, {})
    model.save(path)
    loaded = comt.load(path)
    assert loaded.coef.tobytes() == np.array(coef).tobytes()
    assert np.float64(loaded.intercept).tobytes() == np.float64(intercept).tobytes()
    assert loaded.preparation.scale.tobytes() == np.array(scale).tobytes()


def test_no_row_is_in_the_file(tmp_path):
    model, X = fitted(CoMTRegressor)
    model.save(tmp_path / "model.json")
    text = (tmp_path / "model.json").read_text()
    assert not any(repr(float(value)) in text for value in X["row"])
    assert len(text) < 3000


def test_what_cannot_be_saved_or_predicted_is_said(tmp_path):
    model, X = fitted(CoMTRegressor)
    with pytest.raises(InputError, match="save after fitting"):
        pickle.loads(pickle.dumps(model)).save(tmp_path / "model.json")
    with pytest.raises(InputError, match="cannot be written"):
        model.save(tmp_path / "nowhere" / "model.json")
    assert not list(tmp_path.iterdir())
    model.save(tmp_path / "model.json")
    loaded = comt.load(tmp_path / "model.json")
    for wrong, message in (
        (X.drop(columns="score"), "no columns"),
        (X.to_numpy()[:, :2], "is expected"),
        (X.assign(row="a"), "not numbers"),
        (X.assign(row=np.nan), "NaN or infinite in row 0"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            loaded.predict(wrong)
        assert is_one_sentence(caught.value)


def damaged(**changes):
    def change(content):
        return json.dumps(content | changes).encode()

    return change


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was executed",))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: pickle.dumps(Bomb()), "is not JSON"),
        (lambda content: b"", "is not JSON"),
        (lambda content: json.dumps(content)[:-20].encode(), "is not JSON"),
        (lambda content: json.dumps(content | {"intercept": float("nan")}).encode(), "is not JSON"),
        (lambda content: b"[" * 100_000, "is not JSON"),
        (lambda content: b"[1]", "no model of CoMT"),
        (damaged(format="other"), "no model of CoMT"),
        (damaged(format_version=4), "format_version 4 where 1 to 3 are known"),
        (damaged(format_version=0), "format_version 0"),
        (damaged(schema=7), "no dict"),
        (damaged(schema={"target": "y", "columns": []}), "not the columns of the model"),
        (damaged(format_version=True), "format_version True"),
        (damaged(format_version="1"), "format_version '1'"),
        (lambda content: json.dumps({k: v for k, v in content.items() if k != "theta"}).encode(), "'theta' is missing"),
        (damaged(task="ranking"), "'ranking' is unknown"),
        (damaged(classes=["a", "b"]), "no classes"),
        (damaged(task="classification", classes=["a", "a"]), "two different labels"),
        (damaged(task="classification", classes=["a", 1]), "of one kind"),
        (damaged(task="classification", classes=[{}, []]), "of one kind"),
        (damaged(coefficients=[1.0]), "where 1 belong"),
        (damaged(coefficients=[]), "not finite"),
        (damaged(coefficients=["inf"] * 4), "not finite"),
        (damaged(coefficients=["1"] * 4), "no number"),
        (damaged(coefficients=[True] * 4), "no number"),
        (damaged(coefficients=[10**400] * 4), "damaged"),
        (damaged(coefficients={}), "no list"),
        (damaged(intercept="inf"), "not finite"),
        (damaged(theta=[1.0]), "theta has 1 numbers"),
        (damaged(columns=["a", "a", "b", "c"]), "4 different names"),
        (damaged(columns=[1, 2, 3, 4]), "not names"),
        (damaged(preparation=None), "no dict"),
        (damaged(parameters=[]), "no dict"),
        (lambda content: content["preparation"].update(knee=-1) or json.dumps(content).encode(), "knee is -1.0"),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(tmp_path, change, message):
    path = tmp_path / "model.json"
    fitted(CoMTRegressor)[0].save(path)
    path.write_bytes(change(json.loads(path.read_text())))
    with pytest.raises(InputError, match=message) as caught:
        comt.load(path)
    assert is_one_sentence(caught.value)


@pytest.mark.parametrize(("compressed", "knee"), [(True, KNEE), (False, np.inf)])
def test_files_that_say_only_whether_tails_are_compressed_are_read(tmp_path, compressed, knee):
    path = tmp_path / "model.json"
    fitted(CoMTRegressor)[0].save(path)
    content = json.loads(path.read_text()) | {"format_version": 2}
    for name in ("knee", "target_limit"):
        del content["preparation"][name]
    content["preparation"]["compressed"] = compressed
    path.write_text(json.dumps(content))
    assert comt.load(path).preparation.knee == knee


def test_a_missing_file_is_refused(tmp_path):
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            comt.load(path)


def test_a_notebook_shows_the_model_and_runs_nothing(tmp_path):
    model, X = fitted(CoMTRegressor)
    trusted = np.arange(len(X)) < 12
    model.fit(X.rename(columns={"row": "<script>alert(1)</script>"}), X["score"], trusted=trusted)
    model.save(tmp_path / "model.json")
    html = comt.load(tmp_path / "model.json")._repr_html_()
    assert "regression" in html
    assert "&lt;script&gt;" in html
    assert "<script" not in html
