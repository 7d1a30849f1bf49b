"""Draws by a key: their distribution, that torch's own layers are followed, and that nothing global is touched."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from counterpoise.errors import ConfigError
from counterpoise.models.draws import KeyedDraws, uniform

KEY = torch.tensor(0x1234_5678_9ABC_DEF0)


def _drawn(module: nn.Module, x: Tensor, key: Tensor = KEY) -> Tensor:
    with KeyedDraws(key):
        out = module.train()(x)
    return out[0] if isinstance(out, tuple) else out


def test_the_numbers_are_uniform_and_neighbours_are_independent() -> None:
    drawn = uniform(KEY, 1, (400, 500)).numpy()

    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert stats.kstest(drawn.ravel(), "uniform").pvalue > 0.001
    for shift in (1, 2, 500):
        flat = drawn.ravel()
        assert abs(stats.pearsonr(flat[shift:], flat[:-shift]).statistic) < 0.01


@settings(max_examples=30, deadline=None)
@given(first=st.integers(0, 2**62 - 1), second=st.integers(0, 2**62 - 1), place=st.integers(1, 300))
def test_other_keys_and_places_draw_other_numbers(first: int, second: int, place: int) -> None:
    one = uniform(torch.tensor(first), place, (2000,))

    others = [uniform(torch.tensor(first), place + 1, (2000,))]
    others += [uniform(torch.tensor(second), place, (2000,))] if first != second else []
    for other in others:
        assert abs(torch.corrcoef(torch.stack([one, other]))[0, 1]) < 0.15  # six deviations


def test_each_bit_is_fair() -> None:
    bits = (uniform(KEY, 3, (100_000,)) * 2**24).long()

    for place in range(24):
        ones = float(((bits >> place) & 1).double().mean())
        assert abs(ones - 0.5) < 0.01  # six deviations


def test_a_smaller_batch_draws_what_the_first_rows_of_a_larger_one_do() -> None:
    assert torch.equal(uniform(KEY, 2, (3, 7)), uniform(KEY, 2, (8, 7))[:3])


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Dropout(0.3), (50, 400)),
        (nn.Dropout1d(0.3), (100, 200, 3)),
        (nn.Dropout2d(0.3), (100, 200, 2, 2)),
        (nn.Dropout3d(0.3), (100, 200, 2, 1, 2)),
    ],
)
def test_dropout_drops_its_share_and_scales_the_rest(layer: nn.Module, shape: tuple[int, ...]) -> None:
    out = _drawn(layer, torch.ones(shape))

    kept = out != 0
    assert torch.equal(out[kept], torch.full_like(out[kept], 1 / 0.7))
    assert abs(float(kept.double().mean()) - 0.7) < 0.02
    if len(shape) > 2:  # whole channels
        flat = kept.flatten(2)
        assert torch.equal(flat.all(-1), flat.any(-1))


@pytest.mark.parametrize("layer", [nn.AlphaDropout(0.2), nn.FeatureAlphaDropout(0.2)])
def test_alpha_dropout_keeps_mean_and_variance(layer: nn.Module) -> None:
    x = torch.randn(400, 500, generator=torch.Generator().manual_seed(1))

    out = _drawn(layer, x)

    assert abs(float(out.mean())) < 0.02
    assert abs(float(out.var()) - 1) < 0.02
    # Dropped numbers are SELU's limit, moved and scaled as the layer's own formula has it.
    limit = -1.7580993408473766
    scale = (0.8 + limit**2 * 0.8 * 0.2) ** -0.5
    assert torch.isclose(out, torch.tensor(limit * scale - scale * limit * 0.2)).double().mean() > 0.15


def test_rate_0_is_the_identity_and_rate_1_nothing() -> None:
    x = torch.randn(5, 6)

    assert torch.equal(_drawn(nn.Dropout(0.0), x), x)
    assert torch.equal(_drawn(nn.Dropout(1.0), x), torch.zeros_like(x))


def test_in_evaluation_nothing_is_drawn() -> None:
    x = torch.randn(5, 6)
    with KeyedDraws(KEY) as draws:
        out = nn.Dropout(0.5).eval()(x)

    assert draws.count == 0
    assert torch.equal(out, x)


class _FunctionalDropout(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5, self.training)


class _StochasticDepth(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        kept = x.new_empty(len(x), *(1 for _ in x.shape[1:])).bernoulli_(0.5)
        return x * kept.div_(0.5)


def _networks() -> dict[str, nn.Module]:
    return {
        "functional dropout": _FunctionalDropout(),
        "stochastic depth": _StochasticDepth(),
        "lstm": nn.LSTM(6, 4, 3, dropout=0.5, batch_first=True, bidirectional=True),
        "gru": nn.GRU(6, 4, 2, dropout=0.5),
        "rnn": nn.RNN(6, 4, 2, dropout=0.5, nonlinearity="relu", bias=False),
        "lstm with projection": nn.LSTM(6, 4, 2, dropout=0.5, proj_size=3),
        "transformer": nn.TransformerEncoderLayer(6, 2, 8, dropout=0.5, batch_first=True),
        "attention": nn.MultiheadAttention(6, 2, dropout=0.5, batch_first=True),
    }


class _Self(nn.Module):
    """Attention of a sequence to itself."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        out = self.inner(x, x, x) if isinstance(self.inner, nn.MultiheadAttention) else self.inner(x)
        return out[0] if isinstance(out, tuple) else out


@pytest.mark.parametrize("name", _networks())
def test_a_network_repeats_by_its_key_and_leaves_the_global_stream_alone(name: str) -> None:
    network, x = _Self(_networks()[name]), torch.randn(3, 5, 6)
    before = torch.get_rng_state()

    first, again, other = (_drawn(network, x, key) for key in (KEY, KEY, KEY + 1))

    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    "name", [name for name in _networks() if "depth" not in name and "functional" not in name]
)
def test_without_dropout_a_network_is_torchs_own(name: str) -> None:
    network, x = _Self(_networks()[name]), torch.randn(3, 5, 6)
    for layer in network.modules():
        if hasattr(layer, "dropout") and isinstance(layer.dropout, float):
            layer.dropout = 0.0
        if isinstance(layer, nn.Dropout):
            layer.p = 0.0

    assert torch.equal(_drawn(network, x), network.train()(x))


@pytest.mark.parametrize("name", _networks())
def test_stacked_clients_draw_what_each_draws_alone(name: str) -> None:
    network, x = _Self(_networks()[name]).double().train(), torch.randn(3, 5, 6, dtype=torch.float64)
    params = {name: p.detach() for name, p in network.named_parameters()}
    keys = torch.tensor([5, 2**61 + 7])

    def total(x: Tensor, params: dict[str, Tensor], key: Tensor) -> Tensor:
        with KeyedDraws(key):
            return functional_call(network, params, (x,)).square().sum()

    own = {name: torch.stack([p, p]) for name, p in params.items()}  # clients have parameters of their own
    together = vmap(grad(total))(torch.stack([x, x]), own, keys)

    alone = torch.stack([grad(total)(x, params, key) for key in keys])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)
    assert not torch.allclose(together[0], together[1])


def test_attention_with_dropout_is_softmax_of_scores_times_a_mask() -> None:
    query, key, value = (torch.randn(2, 4, 3, dtype=torch.float64) for _ in range(3))
    with KeyedDraws(KEY):
        found = F.scaled_dot_product_attention(query, key, value, dropout_p=0.25, is_causal=True)

    kept = (uniform(KEY, 1, (2, 4, 4)) >= 0.25).double() / 0.75
    scores = torch.einsum("bik,bjk->bij", query, key) / math.sqrt(3)
    weights = scores.masked_fill(torch.ones(4, 4).triu(1).bool(), -math.inf).softmax(-1) * kept
    torch.testing.assert_close(found, torch.einsum("bij,bjk->bik", weights, value), rtol=0, atol=1e-12)


def test_between_layers_of_an_lstm_the_output_is_dropped() -> None:
    lstm, x = nn.LSTM(6, 4, 2, dropout=0.5, batch_first=True), torch.randn(3, 5, 6)
    lower, upper = nn.LSTM(6, 4, batch_first=True), nn.LSTM(4, 4, batch_first=True)
    for part, layer in ((lower, 0), (upper, 1)):
        part.load_state_dict(
            {name: lstm.state_dict()[name.replace("l0", f"l{layer}")] for name in part.state_dict()}
        )

    hidden, (state, _) = lower(x)
    mask = (uniform(KEY, 1, hidden.shape) >= 0.5) * 2.0
    out, (last, cell) = upper(hidden * mask)
    with KeyedDraws(KEY):
        found, (found_state, found_cell) = lstm.train()(x)

    torch.testing.assert_close(found, out)
    torch.testing.assert_close(found_state, torch.cat([state, last]))
    torch.testing.assert_close(found_cell[1:], cell)


def test_packed_sequences_with_dropout_are_refused_in_one_line() -> None:
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(5, 2, 6), [5, 3])

    with KeyedDraws(KEY), pytest.raises(ConfigError, match="packed sequence"):
        nn.LSTM(6, 4, 2, dropout=0.5).train()(packed)
