"""Augmentation by hand on small images; batched and sample by sample alike."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

from counterpoise.core.rng import generator
from counterpoise.data.augment import AUGMENTATIONS, Augmentation, compose, crop, cutout, flip
from counterpoise.errors import ConfigError

EVERY = [flip(), crop(2, 0.7), cutout(3, 0.7), compose(flip(), crop(1), cutout(2), crop(2, 0.5))]


def images(count: int = 40, dtype: torch.dtype = torch.float32) -> Tensor:
    """No pixel is zero, so that padding and holes show."""
    return torch.randint(1, 256, (count, 3, 6, 5), generator=generator(0, "images")).to(dtype)


def augment(way: Augmentation, x: Tensor, seed: int = 0) -> Tensor:
    return way.apply(x, way.draw(len(x), tuple(x.shape[1:]), generator(seed, "augment")))


def test_flip_by_hand() -> None:
    x = torch.tensor([[[[1, 2, 3], [4, 5, 6]]], [[[1, 2, 3], [4, 5, 6]]]])
    flipped = flip().apply(x, {"flip": torch.tensor([True, False])})
    assert flipped.tolist() == [[[[3, 2, 1], [6, 5, 4]]], [[[1, 2, 3], [4, 5, 6]]]]


def test_crop_by_hand() -> None:
    x = torch.tensor([[1, 2], [3, 4]]).expand(3, 1, 2, 2)
    cropped = crop(padding=1).apply(x, {"corner": torch.tensor([[0, 0], [1, 1], [1, 2]])})
    assert cropped[:, 0].tolist() == [[[0, 0], [0, 1]], [[1, 2], [3, 4]], [[2, 0], [4, 0]]]


def test_cutout_by_hand() -> None:
    x = torch.ones(3, 1, 3, 3, dtype=torch.int64)
    cut = cutout(size=2).apply(x, {"corner": torch.tensor([[-1, -1], [1, 0], [-2, -2]])})
    assert cut[:, 0].tolist() == [
        [[0, 1, 1], [1, 1, 1], [1, 1, 1]],
        [[1, 1, 1], [0, 0, 1], [0, 0, 1]],
        [[1, 1, 1], [1, 1, 1], [1, 1, 1]],
    ]


def test_crop_equals_slices_of_padded_images() -> None:
    x, way = images(), crop(padding=2)
    draws = way.draw(len(x), (3, 6, 5), generator(1, "augment"))
    padded = pad(x, (2, 2, 2, 2))
    slices = [p[:, r : r + 6, c : c + 5] for p, (r, c) in zip(padded, draws["corner"].tolist(), strict=True)]
    assert torch.equal(way.apply(x, draws), torch.stack(slices))


def test_cutout_zeroes_one_clipped_square_around_a_pixel() -> None:
    cut = augment(cutout(size=3), images(200)) == 0
    assert torch.equal(cut.all(1), cut.any(1))
    heights, widths = cut[:, 0].any(2).sum(1), cut[:, 0].any(1).sum(1)
    assert torch.equal(cut[:, 0].sum((1, 2)), heights * widths)
    assert set(heights.tolist()) == set(widths.tolist()) == {2, 3}


@pytest.mark.parametrize("way", EVERY)
def test_one_by_one_equals_batched(way: Augmentation) -> None:
    x = images()
    draws = way.draw(len(x), (3, 6, 5), generator(2, "augment"))
    assert all(len(values) == len(x) for values in draws.values())
    single = [way.apply(x[i : i + 1], {k: v[i : i + 1] for k, v in draws.items()}) for i in range(len(x))]
    together = way.apply(x, draws)
    assert torch.equal(together, torch.cat(single))
    assert not torch.equal(together, x)


@pytest.mark.parametrize("way", EVERY)
def test_stacked_clients_under_vmap_equal_one_long_batch(way: Augmentation) -> None:
    x = images()
    draws = way.draw(len(x), (3, 6, 5), generator(3, "augment"))
    clients = x.view(4, 10, 3, 6, 5), {k: v.view(4, 10, *v.shape[1:]) for k, v in draws.items()}
    assert torch.equal(torch.vmap(way.apply)(*clients).flatten(0, 1), way.apply(x, draws))


@pytest.mark.parametrize("way", EVERY)
def test_uint8_stays_uint8_and_equals_float(way: Augmentation) -> None:
    x = images(dtype=torch.uint8)
    out = augment(way, x)
    assert out.dtype == torch.uint8
    assert torch.equal(out.float(), augment(way, x.float()))


@pytest.mark.parametrize("way", EVERY)
def test_the_stream_alone_decides_and_the_input_is_left_alone(way: Augmentation) -> None:
    x = images()
    kept = x.clone()
    assert torch.equal(augment(way, x, seed=5), augment(way, x, seed=5))
    assert not torch.equal(augment(way, x, seed=5), augment(way, x, seed=6))
    assert torch.equal(x, kept)


@pytest.mark.parametrize(
    "way", [flip(p=0), crop(p=0), crop(padding=0), cutout(size=1, p=0), cutout(p=0), compose()]
)
def test_identity_where_nothing_is_drawn(way: Augmentation) -> None:
    assert torch.equal(augment(way, images()), images())


def test_flip_twice_is_the_identity() -> None:
    x, way = images(), flip(p=1)
    assert torch.equal(augment(way, x), x.flip(-1))
    assert torch.equal(augment(way, augment(way, x)), x)


@pytest.mark.parametrize("p", [0.2, 0.5, 1.0])
def test_frequencies_are_near_p(p: float) -> None:
    shape, count = (1, 8, 8), 20_000
    flipped = flip(p).draw(count, shape, generator(0, "flip"))["flip"]
    cropped = crop(4, p).draw(count, shape, generator(0, "crop"))["corner"]
    cut = cutout(2, p).draw(count, shape, generator(0, "cutout"))["corner"]
    assert flipped.float().mean().item() == pytest.approx(p, abs=0.02)
    assert (cropped != 4).any(1).float().mean().item() == pytest.approx(p * 80 / 81, abs=0.02)
    assert (cut != -2).any(1).float().mean().item() == pytest.approx(p, abs=0.02)


def test_every_window_and_every_centre_is_as_likely() -> None:
    corners = crop(1).draw(9000, (1, 4, 4), generator(0, "crop"))["corner"]
    assert torch.bincount(corners @ torch.tensor([3, 1]), minlength=9).tolist() == pytest.approx(
        [1000] * 9, abs=150
    )
    holes = cutout(1).draw(6000, (1, 2, 3), generator(0, "cutout"))["corner"]
    assert torch.bincount(holes @ torch.tensor([3, 1]), minlength=6).tolist() == pytest.approx(
        [1000] * 6, abs=150
    )


def test_compose_applies_in_order_and_keeps_draws_apart() -> None:
    x, both = images(), compose(crop(1), crop(2))
    draws = both.draw(len(x), (3, 6, 5), generator(7, "augment"))
    assert sorted(draws) == ["0.corner", "1.corner"]
    first = crop(1).apply(x, {"corner": draws["0.corner"]})
    assert torch.equal(both.apply(x, draws), crop(2).apply(first, {"corner": draws["1.corner"]}))


def test_the_tenth_of_many_is_not_taken_for_the_first() -> None:
    assert torch.equal(augment(compose(*[flip(p=1)] * 12), images()), images())


def test_registered_names_check_their_arguments() -> None:
    assert AUGMENTATIONS.names() == ["crop", "cutout", "flip"]
    assert torch.equal(augment(AUGMENTATIONS.build("flip", {"p": 1}), images()), images().flip(-1))
    with pytest.raises(ConfigError, match=r"augmentation flip: p must be a number in \[0, 1\], not 2"):
        AUGMENTATIONS.build("flip", {"p": 2})


@pytest.mark.parametrize("name", AUGMENTATIONS.names())
def test_samples_that_are_not_images_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"needs images .* shape \[14\]"):
        AUGMENTATIONS.build(name).draw(3, (14,), generator(0, "augment"))
