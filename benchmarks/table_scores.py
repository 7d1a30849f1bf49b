"""scikit-learn on the rows that the package's own split gives, with scikit-learn's own encoders and scores."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
from sklearn.base import ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, roc_auc_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from threadpoolctl import threadpool_limits

from counterpoise.data.tables.splitting import Splitting
from counterpoise.data.tables.table import fitted_table
from counterpoise.data.tables.uses import ColumnUses
from counterpoise.system.atomic import write_atomically

Scores = dict[str, float | None]
SCORES = ("balanced_accuracy", "accuracy", "macro_f1", "auroc")
LEARNERS = ("logistic regression", "balanced logistic", "boosting")  # of scikit-learn, with its defaults
MISSING = ["", "?"]


def learn(path: Path, label: str, left_out: list[str], seed: int) -> dict[str, Scores]:
    """The scores of all learners, kept beside the table for the next call."""
    done = path.parent / f"learners-{seed}.json"
    if not done.exists():
        with threadpool_limits(1):  # threads that wait for each other are slow where cores are shared
            found = score_learners(path, label, left_out, seed)
        write_atomically(done, json.dumps(found).encode())
    known: dict[str, Scores] = json.loads(done.read_text())
    return known


def score_learners(path: Path, label: str, left_out: list[str], seed: int) -> dict[str, Scores]:
    """Scores of each learner on the split of this seed; labels and words stay text."""
    frame = pd.read_csv(path, na_values=MISSING, dtype={label: str}, keep_default_na=True)
    split = fitted_table(path, ColumnUses(label, drop=left_out), Splitting(seed=seed)).split
    x, y = frame.drop(columns=[label, *left_out]), frame[label]
    train, test = split
    made = zip(LEARNERS, learners(x), strict=True)
    return {
        name: score(one.fit(x.iloc[train], y.iloc[train]), x.iloc[test], y.iloc[test]) for name, one in made
    }


def learners(x: pd.DataFrame) -> tuple[Pipeline, ...]:
    numbers = list(x.select_dtypes("number").columns)
    words = [name for name in x.columns if name not in numbers]
    scaled = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    inputs = make_column_transformer(
        (scaled, numbers), (OneHotEncoder(handle_unknown="ignore"), words), sparse_threshold=0
    )
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    ordered = make_column_transformer((codes, words), ("passthrough", numbers))
    boosting = HistGradientBoostingClassifier(categorical_features=list(range(len(words))), random_state=0)
    return (
        make_pipeline(inputs, LogisticRegression(max_iter=1000)),
        make_pipeline(inputs, LogisticRegression(max_iter=1000, class_weight="balanced")),
        make_pipeline(ordered, boosting),
    )


def score(fitted: ClassifierMixin, x: pd.DataFrame, y: pd.Series) -> Scores:
    guess = fitted.predict(x)
    two = len(fitted.classes_) == 2
    return {
        "balanced_accuracy": float(balanced_accuracy_score(y, guess)),
        "accuracy": float(accuracy_score(y, guess)),
        "macro_f1": float(f1_score(y, guess, average="macro", labels=fitted.classes_)),
        "auroc": float(roc_auc_score(y, fitted.predict_proba(x)[:, 1])) if two else None,
    }
