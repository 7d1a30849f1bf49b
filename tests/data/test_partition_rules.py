"""Each partition does what its paper says, by numbers worked out by hand."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from counterpoise.data.partition import PARTITIONS, Split
from counterpoise.data.partitions.dirichlet import draw_classes
from counterpoise.data.partitions.owners import (
    draw_shares,
    even_runs,
    fill_up,
    shares_to_counts,
    skim,
)
from counterpoise.data.partitions.redrawn import redraw
from counterpoise.data.types import Labels, Rows
from counterpoise.errors import ConfigError, first_few


def labels_of(*sizes: int) -> Labels:
    return Labels(np.repeat(np.arange(len(sizes)), sizes), len(sizes))


def split_with(name: str, labels: Labels, clients: int, seed: int = 0, **arguments: object) -> Split:
    return PARTITIONS.build(name, arguments)(labels, clients, np.random.default_rng(seed))


def counts_of(labels: Labels, clients: Sequence[Rows]) -> NDArray[np.int64]:
    """[N, C] samples of each client and class."""
    return np.stack([np.bincount(labels.y[rows], minlength=labels.classes) for rows in clients])


def counts_with(
    name: str, labels: Labels, clients: int, seed: int = 0, **arguments: object
) -> NDArray[np.int64]:
    return counts_of(labels, split_with(name, labels, clients, seed, **arguments).clients)


def test_the_largest_come_down_to_one_level() -> None:
    assert skim(np.array([10, 7, 1]), 5).tolist() == [4, 1, 0]  # 6, 6, 1 stay
    assert skim(np.array([10, 7, 1]), 4).tolist() == [4, 0, 0]  # 6, 7, 1 stay
    assert skim(np.array([3, 3, 3]), 9).tolist() == [3, 3, 3]


def test_clients_below_the_minimum_are_filled_from_the_largest_and_it_is_said() -> None:
    owner = np.repeat([0, 1, 2], [10, 7, 1])
    filled = fill_up(owner, 4, 3, np.random.default_rng(0))
    assert np.bincount(filled.owner).tolist() == [6, 6, 3, 3]
    assert filled.repairs == ("moved 5 samples to 2 clients below the minimum of 3, from the 2 largest",)
    assert fill_up(owner, 3, 1, np.random.default_rng(0)).repairs == ()
    assert np.bincount(owner).tolist() == [10, 7, 1]


def test_counts_are_cut_at_the_cumulated_weights() -> None:
    assert shares_to_counts(10, np.array([0.1, 0.2, 0.7])).tolist() == [1, 2, 7]
    assert shares_to_counts(3, np.array([0.0, 2.0, 0.0])).tolist() == [0, 3, 0]
    two = shares_to_counts(np.array([4, 6]), np.array([[1.0, 1.0, 2.0], [1.0, 0.0, 2.0]]))
    assert two.tolist() == [[1, 1, 2], [2, 0, 4]]


@pytest.mark.parametrize("alpha", [1e-320, 1e-30, 0.001, 0.09, 0.11, 1e9])
def test_shares_sum_to_one_for_any_concentration(alpha: float) -> None:
    shares = draw_shares(alpha, (50, 7), np.random.default_rng(0))
    assert np.allclose(shares.sum(axis=1), 1)
    assert (shares >= 0).all()
    if alpha < 1e-6:
        assert len(set(shares.argmax(axis=1))) == 7  # each client's turn to have it all


def test_runs_are_even() -> None:
    assert even_runs(7, 3).tolist() == [0, 0, 0, 1, 1, 2, 2]


def test_long_lists_are_cut_short() -> None:
    assert first_few([4, 7]) == "4, 7"
    assert first_few(range(11), most=3) == "0, 1, 2 and 8 more"


@pytest.mark.parametrize("name", ["iid", "dirichlet_equal", "dirichlet_blocks", "blocks"])
@pytest.mark.parametrize("clients", [1, 7, 33])
def test_equal_parts_differ_by_at_most_one(name: str, clients: int) -> None:
    sizes = counts_with(name, labels_of(500, 120, 31, 4), clients).sum(axis=1)
    assert sizes.max() - sizes.min() <= 1


def test_iid_clients_have_the_global_mix() -> None:
    counts = counts_with("iid", labels_of(8000, 2000), 10)
    assert np.abs(counts[:, 1] / 1000 - 0.2).max() < 0.05  # four standard deviations


def test_dirichlet_limits_are_even_shares_and_whole_classes() -> None:
    even = counts_with("dirichlet", labels_of(10_000, 10_000), 10, alpha=1e6)
    assert np.abs(even - 1000).max() < 150  # five standard deviations of a multinomial
    whole = counts_with("dirichlet", labels_of(50, 70, 90), 10, alpha=1e-6, minimum=0)
    assert sorted(whole[whole > 0]) == [50, 70, 90]


def test_dirichlet_without_a_minimum_repairs_nothing() -> None:
    split = split_with("dirichlet", labels_of(50, 70), 10, alpha=1e-6, minimum=0)
    assert split.repairs == ()
    assert min(map(len, split.clients)) == 0


@pytest.mark.parametrize("seed", range(5))
def test_a_client_with_its_fair_share_gets_no_further_class(seed: int) -> None:
    labels = labels_of(400, 300, 200, 100)
    counts = counts_with("dirichlet_capped", labels, 10, seed, alpha=0.5, minimum=0)
    before = np.cumsum(counts, axis=1) - counts
    assert (before >= 100).any()
    assert (counts[before >= 100] == 0).all()


def test_rounded_shares_drop_what_is_below_half_a_thousandth() -> None:
    assert counts_with("dirichlet_rounded", labels_of(1000, 500), 10, alpha=1e9).tolist() == [[100, 50]] * 10
    rounded = counts_with("dirichlet_rounded", labels_of(1_000_000), 5, alpha=0.1, minimum=0).ravel()
    assert (rounded == 0).any()
    thousandths = [rounded * total / 1e6 for total in range(998, 1003)]  # what five rounded shares may sum to
    assert any(np.abs(shares - np.rint(shares)).max() < 0.01 for shares in thousandths)
    split = split_with("dirichlet_rounded", labels_of(6000), 3000, alpha=1e9)  # every share rounds to nothing
    assert split.repairs == ()


def test_draws_end_with_the_first_that_is_good_enough() -> None:
    smallest = iter([1, 0, 5, 2, 6, 9, 9, 9])

    def draw(tries: int) -> NDArray[np.int64]:
        return np.array([[[next(smallest), 10]] for _ in range(tries)])

    drawn = redraw(draw, minimum=6)  # batches of 1, 1, 2, 4
    assert drawn.counts.tolist() == [[6, 10]]
    assert drawn.lacking == 0


def test_draws_that_never_succeed_end_with_the_one_that_lacks_least() -> None:
    made = 0

    def draw(tries: int) -> NDArray[np.int64]:
        nonlocal made
        made += tries
        return np.full((tries, 1, 2), 3 if made == 4 else 1)  # made: 1, 2, 4, 8, ...

    drawn = redraw(draw, minimum=5)
    assert drawn.counts.tolist() == [[3, 3]]
    assert (drawn.tries, drawn.lacking, made) == (1000, 4, 1000)
    assert redraw(draw, minimum=5, most_shares=20).tries == 10


def test_capped_says_that_it_gave_up_and_what_it_moved() -> None:
    split = split_with("dirichlet_capped", labels_of(500, 500), 60, alpha=0.01)
    assert split.repairs[0] == "none of 1000 draws gave every client 10 samples"
    assert split.repairs[1].startswith("moved ")


def test_blocks_of_ten_keep_to_their_own_samples() -> None:
    # one class and one block: the list of samples is cut where the clients' equal parts end
    assert counts_with("dirichlet_blocks", labels_of(95), 10).ravel().tolist() == [10, 9] * 5
    skewed = counts_with("dirichlet_blocks", labels_of(*[300] * 10), 30, alpha=0.05)
    assert (np.sort(skewed, axis=1)[:, -3:].sum(axis=1) > 50).all()  # of 100: a few classes a client


def sequence_probabilities(
    prior: NDArray[np.float64], sizes: tuple[int, ...], turns: list[int]
) -> dict[tuple[int, ...], float]:
    """Exact law of drawing turn by turn, each from the client's prior over the classes that are left."""
    if not turns:
        return {(): 1.0}
    law = {}
    weights = prior[turns[0]] * (np.array(sizes) > 0)
    for c in np.flatnonzero(weights):
        left = tuple(size - (c == k) for k, size in enumerate(sizes))
        for rest, probability in sequence_probabilities(prior, left, turns[1:]).items():
            law[(int(c), *rest)] = probability * weights[c] / weights.sum()
    return law


def test_drawing_all_at_once_has_the_law_of_drawing_in_turn() -> None:
    prior = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    sizes, turns = (2, 1, 2), [0, 1, 0, 0, 1]
    law = sequence_probabilities(prior, sizes, turns)
    rng, repeats = np.random.default_rng(0), 20_000
    drawn = [
        tuple(draw_classes(prior, np.array(sizes), np.array(turns), rng).tolist()) for _ in range(repeats)
    ]
    assert set(drawn) <= set(law)
    for sequence in set(itertools.permutations((0, 0, 1, 2, 2))):
        expected = law[sequence]
        deviation = (expected * (1 - expected) / repeats) ** 0.5
        assert abs(drawn.count(sequence) / repeats - expected) < 5 * deviation


def test_a_client_whose_classes_are_used_up_takes_what_remains() -> None:
    prior = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    drawn = draw_classes(prior, np.array([1, 0, 3]), np.array([1, 0, 1, 0]), np.random.default_rng(0))
    assert drawn.tolist() == [0, 2, 2, 2]


@pytest.mark.parametrize("alpha", [0.05, 1e-6])
def test_equal_parts_end_at_strong_skew_on_a_long_tail(alpha: float) -> None:
    sizes = [int(5000 * 100 ** (-c / 9)) for c in range(10)]
    counts = counts_with("dirichlet_equal", labels_of(*sizes), 100, alpha=alpha)
    assert counts.sum(axis=0).tolist() == sizes
    assert set(counts.sum(axis=1)) <= {sum(sizes) // 100, sum(sizes) // 100 + 1}


def test_label_skew_is_the_capped_dirichlet() -> None:
    labels = labels_of(300, 200, 100)
    skew, capped = split_with("label_skew", labels, 10), split_with("dirichlet_capped", labels, 10)
    assert all((a == b).all() for a, b in zip(skew.clients, capped.clients, strict=True))


def test_missing_classes_leaves_each_client_its_own_few() -> None:
    split = split_with("missing_classes", labels_of(*[400] * 10), 25, held=3)
    counts = counts_of(labels_of(*[400] * 10), split.clients)
    assert split.repairs == ()
    assert ((counts > 0).sum(axis=1) == 3).all()
    assert (counts[np.arange(25), np.arange(25) % 10] >= 2).all()
    assert counts[counts > 0].min() >= 2


def test_a_class_that_nobody_holds_goes_to_one_client_and_it_is_said() -> None:
    split = split_with("missing_classes", labels_of(40, 40, 40, 40, 1), 3, held=1)
    counts = counts_of(labels_of(40, 40, 40, 40, 1), split.clients)
    assert split.repairs == (
        "classes that no client held, given to one client each: 3, 4",
        "classes with too few samples to give each holder 2: 4",
    )
    assert counts[:, :3].tolist() == [[40, 0, 0], [0, 40, 0], [0, 0, 40]]
    assert sorted(counts[:, 3]) == [0, 0, 40]


def test_quantity_skew_gives_more_to_clients_with_more_classes() -> None:
    counts = counts_with("quantity_skew", labels_of(*[2000] * 10), 200, least=4)
    held, sizes = (counts > 0).sum(axis=1), counts.sum(axis=1)
    assert set(held) == set(range(4, 11))
    # by the rule the quota goes with the number of classes held and there are that many of them: 100 to 16
    assert sizes[held == 10].mean() > 3 * sizes[held == 4].mean()


@pytest.mark.parametrize(("name", "argument"), [("missing_classes", "held"), ("quantity_skew", "least")])
def test_more_classes_than_there_are_is_refused(name: str, argument: str) -> None:
    with pytest.raises(ConfigError, match=f"{argument} must be 1 to 3.* not 4"):
        split_with(name, labels_of(9, 9, 9), 2, **{argument: 4})


def test_two_shards_are_at_most_two_classes() -> None:
    counts = counts_with("shards", labels_of(*[100] * 10), 50)
    assert (counts.sum(axis=1) == 20).all()
    assert set(counts.ravel()) == {0, 10, 20}


def test_blocks_deal_the_rarest_class_in_one_piece() -> None:
    # blocks of 10, but each client may have 5: the five samples of class 1 come first and go to one of them
    counts = counts_with("blocks", labels_of(20, 5), 5)
    assert sorted(map(tuple, counts.tolist())) == [(0, 5), (5, 0), (5, 0), (5, 0), (5, 0)]


def test_blocks_are_as_long_as_tao_says() -> None:
    # tao n_min = 4 samples a block, two blocks and an empty one a client: class 1 is one block
    counts = counts_with("blocks", labels_of(36, 4), 5, tao=1.0)
    assert sorted(map(tuple, counts.tolist())) == [(4, 4), (8, 0), (8, 0), (8, 0), (8, 0)]


def test_blocks_longer_than_the_data_are_whole_parts() -> None:
    for tao in (1e3, 1e300):
        assert counts_with("blocks", labels_of(6, 3), 3, tao=tao).sum(axis=1).tolist() == [3, 3, 3]


def test_natural_clients_are_the_groups_in_order_of_their_ids() -> None:
    labels = Labels(np.array([0, 1, 1, 0]), 2, groups=np.array([7, 3, 7, 9]))
    for clients in (0, 3):
        assert [rows.tolist() for rows in split_with("natural", labels, clients).clients] == [
            [1],
            [0, 2],
            [3],
        ]
    with pytest.raises(ConfigError, match="clients must be 3, or 0 for all, not 5"):
        split_with("natural", labels, 5)
    with pytest.raises(ConfigError, match="no natural clients"):
        split_with("natural", labels._replace(groups=None), 3)
