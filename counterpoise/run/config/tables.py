"""The tables of an experiment file beside [cohort], [local] and [engine]: every key, default and range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Self

from counterpoise.data.partition import FEW_CLIENTS, MOST_CLIENTS, usual_clients
from counterpoise.models.heads import Head
from counterpoise.registry.schema import LARGEST, Count, Interval, Named, Positive, ProperFraction, Seed
from counterpoise.registry.settings import OpenTable, Settings

Weight = Annotated[float, Interval(0, LARGEST)]  # small enough that sums stay finite


@dataclass(frozen=True)
class DataTable(OpenTable, table="data"):
    """Data set and imbalance. Further keys are arguments of the data set."""

    name: Annotated[str, "a data set of `counterpoise ls data`"] = "digits"
    root: Annotated[str | None, "folder of the data sets; else COUNTERPOISE_DATA, else the user's cache"] = (
        None
    )
    imbalance: Annotated[
        float | Named,
        "largest over smallest class of an exponential long tail, or an imbalance such as { step = { factor = 10.0 } }",
    ] = 1.0
    imbalanced_test: Annotated[bool, "apply the imbalance to the test set as well"] = False
    validation: Annotated[
        ProperFraction, "share of the training set, by class, that the server keeps for validation"
    ] = 0.0
    seed: Annotated[
        Seed,
        "draws the test set of own data without one, and what the imbalance and the validation keep; the same for every run seed",
    ] = 0
    positive: Annotated[
        str | int | None,
        "of two classes the one that is to be found: adds its recall, precision, F1 and average precision",
    ] = None
    augment: Annotated[list[Named], 'augmentations of the training images, such as ["flip", "crop"]'] = field(
        default_factory=list
    )


@dataclass(frozen=True)
class PartitionTable(OpenTable, table="partition"):
    """Who holds which samples. Further keys are arguments of the partition."""

    name: Annotated[str, "a partition of `counterpoise ls partitions`"] = "dirichlet"
    clients: Annotated[
        int,
        Interval(0, MOST_CLIENTS),
        "number of clients; with `natural` all that the data has, by 0 or where it is left out",
    ] = FEW_CLIENTS
    validation: Annotated[ProperFraction, "share of its samples that each client keeps for validation"] = 0.0
    seed: Annotated[Seed | None, "draws the partition; by default the run's seed"] = None

    @classmethod
    def read(cls, given: Any, key: str | None = None) -> Self:
        """From a table that may leave out the number of clients."""
        if (
            isinstance(given, Mapping)
            and "clients" not in given
            and usual_clients(given.get("name", "")) == 0
        ):
            given = {**given, "clients": 0}
        return super().read(given, key)


@dataclass(frozen=True)
class ModelTable(OpenTable, table="model"):
    """The model. Further keys are arguments of the model."""

    name: Annotated[
        str,
        "a model of `counterpoise ls models`, or code of another package that is imported: timm:NAME, torchvision:NAME, package.module:function",
    ] = "mlp"
    weights: Annotated[
        str | None,
        "what the model starts from: a safetensors file, or the folder of a finished run; it may lack tensors of `head`, which are drawn",
    ] = None
    freeze: Annotated[
        list[str] | None,
        'patterns of parameters that are never trained nor sent, such as ["body.*"]; running statistics still change',
    ] = None
    head: Annotated[
        Head | None,
        "last layer: linear, cosine (normalised features and weights) or etf (a fixed simplex frame without a bias); by default the model's own, a linear one",
    ] = None


@dataclass(frozen=True)
class ShotsTable(Settings, table="evaluate.shots"):
    """Groups of classes by id, every class in one of them."""

    head: list[int]
    medium: list[int]
    tail: list[int]


@dataclass(frozen=True)
class ThresholdTable(Settings, table="evaluate.threshold"):
    """The threshold of highest recall that reaches a precision on validation samples."""

    precision: Annotated[float, Interval(0, 1, open_low=True)]


@dataclass(frozen=True)
class EvaluateTable(Settings, table="evaluate"):
    """When and how the model is scored on the test set."""

    every: Annotated[Count, "rounds between evaluations; the last round is always evaluated"] = 1
    shots: Annotated[
        Literal["rule", "paper"] | ShotsTable,
        "head, medium and tail classes: by cumulative share, as printed in FedReLa, or { head = [0], medium = [1], tail = [2] }",
    ] = "rule"
    clients: Annotated[bool, "also score on what clients hold out (partition.validation)"] = False
    personal: Annotated[
        bool, "score there also the model that each client would use, such as Ditto's; else the shared one"
    ] = False
    recall_weights: Annotated[list[Weight], "weight of each class's recall in `weighted_score`"] = field(
        default_factory=list
    )
    precision_weights: Annotated[list[Weight], "weight of each class's precision in `weighted_score`"] = (
        field(default_factory=list)
    )
    patience: Annotated[
        Count | None,
        "evaluations without a better balanced accuracy on validation samples (data.validation, else those of `clients`) after which the run ends; by default it never ends early",
    ] = None
    threshold: Annotated[
        Literal["f1", "balanced_accuracy"] | ThresholdTable | None,
        "chooses on the server's validation samples (data.validation) from which probability on a sample is called `data.positive`: for the best score there, or { precision = 0.9 } for the highest recall at that precision; adds `threshold_recall` and so on",
    ] = None
    # None, not []: a run that began before there were probes can still be resumed.
    probes: Annotated[
        list[Named] | None,
        'looks at the scored model, such as ["concentration"], on the server\'s validation samples, else on its test inputs',
    ] = None


@dataclass(frozen=True)
class CheckpointTable(Settings, table="checkpoint"):
    """How often checkpoints are written, and how many are kept."""

    every: Annotated[Count, "rounds between checkpoints"] = 1
    keep: Annotated[int, Interval(2), "checkpoints that are kept"] = 3


@dataclass(frozen=True)
class FlowerTable(Settings, table="flower"):
    """How clients are reached over a network; used only by `counterpoise flower`."""

    clients: Annotated[
        list[str],
        "names of clients that bring their own data; empty: clients are those of [partition], named by number",
    ] = field(default_factory=list)
    timeout: Annotated[Positive, "seconds that a round waits for replies"] = 600.0
    min_replies: Annotated[Count, "usable replies below which a round is skipped"] = 1
    wait: Annotated[Positive, "seconds that the start waits for clients to connect"] = 300.0
    max_share: Annotated[
        Annotated[float, Interval(0, 1, open_low=True)] | None,
        "largest share of all samples that a client may count for; a client that reports more counts for this share; by default no bound",
    ] = None
    client_counts: Annotated[
        bool,
        "ask each client of `clients` for its samples of each class, for the record and the report; else only sums are asked for",
    ] = False


@dataclass(frozen=True)
class TrackTable(Settings, table="track"):
    """Where scores are also written: TensorBoard, MLflow or Weights & Biases. Nothing here changes the result."""

    to: Annotated[
        Literal["none", "tensorboard", "mlflow", "wandb"],
        "TensorBoard needs the extra `track`, MLflow the extra `mlflow`, Weights & Biases the extra `wandb`",
    ] = "none"
    uri: Annotated[
        str | None,
        "TensorBoard: a folder, in which each run gets a subfolder; by default the run's folder. MLflow: a tracking address; by default MLflow's own. Weights & Biases: a server, or offline: files in the run's folder, for `wandb sync`; by default wandb's own",
    ] = None
    experiment: Annotated[str, "name of the experiment in MLflow, of the project in Weights & Biases"] = (
        "counterpoise"
    )
