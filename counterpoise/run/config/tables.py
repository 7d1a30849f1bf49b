"""The tables of an experiment file: every key, default and legal value."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from counterpoise.core.local import LARGEST_BATCH, MOST_EPOCHS, Batching
from counterpoise.registry.arguments import MAX_INFLUENCE, MOST_CLIENTS, SEEDS
from counterpoise.registry.registry import LARGEST

Named = str | dict[str, dict[str, Any]]  # a name, or { name = { argument = value } }
Share = Annotated[float, Field(ge=0, lt=1)]
Weight = Annotated[float, Field(ge=0, le=LARGEST)]  # of which many can still be added
Seed = Annotated[int, Field(ge=0, lt=SEEDS)]


class Table(BaseModel):
    """A table that knows all its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class OpenTable(Table):
    """A table whose further keys are arguments of what it names."""

    model_config = ConfigDict(extra="allow")
    name: str

    @property
    def arguments(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class DataTable(OpenTable):
    """Which samples. Further keys are arguments of the data set."""

    name: str = Field("digits", description="a data set of `counterpoise ls data`")
    root: str | None = Field(
        None, description="folder of the data sets; else COUNTERPOISE_DATA, else the user's cache"
    )
    imbalance: float | Named = Field(
        1.0,
        description="largest over smallest class of an exponential long tail, or an imbalance such as { step = { factor = 10.0 } }",
    )
    imbalanced_test: bool = Field(False, description="apply the imbalance to the test set as well")
    validation: Share = Field(
        0.0, description="share of the training set, by class, that the server keeps for validation"
    )
    seed: Seed = Field(
        0,
        description="draws which samples the imbalance and the validation keep; the same for every run seed",
    )
    augment: list[Named] = Field(
        [], description='augmentations of the training images, such as ["flip", "crop"]'
    )


class PartitionTable(OpenTable):
    """Who holds which samples. Further keys are arguments of the partition."""

    name: str = Field("dirichlet", description="a partition of `counterpoise ls partitions`")
    clients: int = Field(
        10, ge=0, le=MOST_CLIENTS, description="number of clients; 0 with `natural`: all that the data has"
    )
    validation: Share = Field(0.0, description="share of its samples that each client keeps for validation")
    seed: Seed | None = Field(None, description="draws the partition; by default the run's seed")


class CohortTable(Table):
    """Which clients train in a round."""

    size: int | None = Field(None, ge=1, description="clients a round; by default all")
    sampling: Literal["exact", "bernoulli"] = Field(
        "exact", description="exactly `size` clients, or each with chance size / N"
    )
    max_influence: float = Field(
        MAX_INFLUENCE,
        ge=0,
        description="longest update that is used as it is, in medians of its round (of three replies or more); a longer one is shortened to that; 0: no bound",
    )


class ModelTable(OpenTable):
    """What is trained. Further keys are arguments of the model."""

    name: str = Field("mlp", description="a model of `counterpoise ls models`")


class LocalTable(Table):
    """How a client trains; the same for every method."""

    lr: float = Field(0.1, gt=0, description="learning rate of the first round")
    schedule: Named = Field(
        "constant", description="learning rate over rounds: constant, factor, cosine, steps"
    )
    batch_size: int = Field(32, ge=1, le=LARGEST_BATCH, description="samples a step")
    epochs: int = Field(
        1, ge=1, le=MOST_EPOCHS, description="passes over its data that a client makes in a round"
    )
    momentum: float = Field(0.0, ge=0, lt=1, description="momentum of the local steps, from 0 in each round")
    weight_decay: float = Field(0.0, ge=0, description="strength of the weight decay")
    decoupled: bool = Field(False, description="weight decay outside the method's rule and the momentum")
    clip: float | None = Field(None, gt=0, description="largest norm of a gradient; by default none")
    batching: Batching = Field(
        "auto",
        description="the last short batch: padded, filled from the next order, or dropped; auto: wrap with BatchNorm, else pad",
    )


class EngineTable(Table):
    """How the work is executed; no choice here changes the result beyond rounding."""

    name: Literal["auto", "loop", "stacked", "flower"] = Field(
        "auto", description="clients one by one, side by side, or (`counterpoise flower`) over a network"
    )
    device: str = Field("auto", description="auto, cpu, cuda")
    compile: Literal["auto"] | bool = Field(
        "auto", description="compile the stacked step: takes up to a minute, repays in long runs on a GPU"
    )
    precision: Literal["full", "tf32", "bf16"] = Field(
        "full",
        description="products on a GPU: float32, TF32, or the model in bfloat16 with parameters in float32",
    )
    processes: int = Field(0, ge=0, le=512, description="worker processes of the loop engine; 0: one a core")
    threads: int = Field(
        1,
        ge=1,
        le=512,
        description="threads of the main process; more pay only for large models on an idle machine",
    )
    chunk: int = Field(0, ge=0, description="clients the stacked engine trains at once; 0: as many as fit")
    dtype: Literal["float32", "float64"] = Field("float32", description="type of parameters and inputs")
    max_skipped: int = Field(
        5, ge=1, description="rounds without a usable reply in a row after which the run stops, to be resumed"
    )
    together: list[str] = Field(
        [],
        description="written into the resolved config: runs that were trained in one program with this one",
    )
    reason: str = Field("", description="written into the resolved config: why this engine")


class ShotsTable(Table):
    """Groups of classes by id, every class in one of them."""

    head: list[int]
    medium: list[int]
    tail: list[int]


class EvaluateTable(Table):
    """When and how the model is scored on the test set."""

    every: int = Field(1, ge=1, description="rounds between evaluations; the last round is always evaluated")
    shots: Literal["rule", "paper"] | ShotsTable = Field(
        "rule",
        description="head, medium and tail classes: by cumulative share, as printed in FedReLa, or { head = [0], medium = [1], tail = [2] }",
    )
    clients: bool = Field(False, description="also score on what clients hold out (partition.validation)")
    recall_weights: list[Weight] = Field([], description="weight of each class's recall in `weighted_score`")
    precision_weights: list[Weight] = Field(
        [], description="weight of each class's precision in `weighted_score`"
    )


class CheckpointTable(Table):
    """What an interrupted run continues from."""

    every: int = Field(1, ge=1, description="rounds between checkpoints")
    keep: int = Field(3, ge=2, description="checkpoints that are kept")


class FlowerTable(Table):
    """How clients are reached over a network; used by `counterpoise flower` alone."""

    clients: list[str] = Field(
        [],
        description="names of clients that bring their own data; empty: clients are those of [partition], named by number",
    )
    timeout: float = Field(600.0, gt=0, description="seconds that a round waits for replies")
    min_replies: int = Field(1, ge=1, description="usable replies below which a round is skipped")
    wait: float = Field(300.0, gt=0, description="seconds that the start waits for clients to come")
    max_share: float | None = Field(
        None,
        gt=0,
        le=1,
        description="largest share of all samples that a client may count for; one that says it has more counts for that; by default no bound",
    )


class TrackTable(Table):
    """Where scores are written to as well, for a viewer of yours; no choice here changes the result."""

    to: Literal["none", "tensorboard", "mlflow"] = Field(
        "none", description="TensorBoard needs the extra `track`, MLflow the extra `mlflow`"
    )
    uri: str | None = Field(
        None,
        description="TensorBoard: a folder, in which each run gets one of its own; by default the run's folder. MLflow: a tracking address; by default MLflow's own",
    )
    experiment: str = Field("counterpoise", description="name of the experiment in MLflow")
