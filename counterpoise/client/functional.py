"""A torch module as a pure function of its trained parameters and buffers; frozen parameters are part of the function."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.func import functional_call

from counterpoise.client.chain import chain_of
from counterpoise.core.codec import digest
from counterpoise.core.part import Outputs
from counterpoise.core.tree import Params
from counterpoise.models.draws import KeyedDraws
from counterpoise.models.headed import own_name, whole_network
from counterpoise.models.heads import HEAD, has_features
from counterpoise.models.masks import asks_for_masks, whole_masks
from counterpoise.models.norms import counts_batches, goes_by_batches, with_own_norms
from counterpoise.models.outputs import logits_of
from counterpoise.models.patches import by_patches
from counterpoise.models.recurrent import has_recurrent_layers, without_cudnn

_INNER = "inner."


class _Splitter(nn.Module):
    """Calls ``features`` and ``head`` separately where a module has both, so that losses may use the features."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.split = has_features(inner)

    def forward(self, x: Tensor) -> Outputs:
        return scored_outputs(self.inner, x, self.split)


def scored_outputs(module: nn.Module, x: Tensor, split: bool) -> Outputs:
    """What a model says of inputs when it is trained and scored; `split`: it has ``features`` and ``head``."""
    if split:
        features: Tensor = module.features(x)  # type: ignore[operator]
        return Outputs(module.head(features), features)  # type: ignore[operator]
    logits = logits_of(module(x))
    return Outputs(logits, logits[:, :0])


class FunctionalModel:
    """``apply`` is pure: it takes parameters and buffers and returns the outputs and the buffers after the pass."""

    def __init__(
        self,
        module: nn.Module,
        half: bool = False,
        patches: bool = False,
        draws: bool = False,
        mixes: bool = False,
    ) -> None:
        """`half`: train in bfloat16, but parameters and losses in their own type; `patches`: convolutions as products.

        `draws`: the module draws in training, as dropout does: every pass needs a key. `mixes`: what it does with a sample
        goes by the whole batch, as in BatchNorm, which is known without being told.
        """
        self.module = module
        self.half = half
        self.draws = draws
        self.has_batch_norm = any(map(goes_by_batches, module.modules()))
        self.mixes = mixes or self.has_batch_norm
        self._scoring = self._training = _Splitter(module)
        # Torch's own does not run under vmap in bfloat16, nor with a mean over all batches.
        if (half and self.has_batch_norm) or any(map(counts_batches, module.modules())):
            self._training = _Splitter(with_own_norms(module))
        if patches:
            self._training = _Splitter(by_patches(self._training.inner))
        self.dtype = next(module.parameters()).dtype
        self.chain = None if half else chain_of(module)
        self._recurrence = without_cudnn if has_recurrent_layers(module) else nullcontext
        self._masking = whole_masks if asks_for_masks(module) else nullcontext
        self.has_images = any(isinstance(m, nn.Conv2d) for m in module.modules())

    def patched(self) -> FunctionalModel:
        """The same model, its convolutions trained as products of patches."""
        return FunctionalModel(self.module, self.half, True, self.draws, self.mixes)

    @cached_property
    def stackable(self) -> FunctionalModel:
        """The same model for evaluation under vmap, where torch's BatchNorm does not run."""
        return FunctionalModel(with_own_norms(self.module)) if self.has_batch_norm else self

    def params(self) -> Params:
        """A copy of the parameters that are trained."""
        return {name: p.detach().clone() for name, p in self.module.named_parameters() if p.requires_grad}

    def buffers(self) -> Params:
        """A copy of what changes in training without a gradient: running statistics."""
        return {name: b.detach().clone() for name, b in self.module.named_buffers()}

    def frozen(self) -> Params:
        """A copy of the parameters that nobody trains; they are never sent, averaged or put into a checkpoint."""
        return {name: p.detach().clone() for name, p in self.module.named_parameters() if not p.requires_grad}

    @cached_property
    def frozen_sha256(self) -> str:
        """SHA-256 of the frozen parameters; empty where there are none. Both sides of a run must have the same."""
        frozen = self.frozen()
        return digest(frozen) if frozen else ""

    def apply(
        self, params: Params, buffers: Params, x: Tensor, train: bool, key: Tensor | None = None
    ) -> tuple[Outputs, Params]:
        """Outputs on a batch, and the buffers after the pass; the arguments are not changed.

        `functional_call` takes what is in neither tree, the frozen parameters, from the module.
        """
        buffers = {name: b.clone() for name, b in buffers.items()} if train else buffers
        splitter = (self._training if train else self._scoring).train(train)
        state = {_INNER + name: value for name, value in (params | buffers).items()}
        drawing = self._drawing(key if train else None)
        with self._autocast(x, train), drawing, self._masking(), self._recurrence():
            outputs = functional_call(splitter, state, (x,))
        return Outputs(outputs.logits.to(self.dtype), outputs.features.to(self.dtype)), buffers

    def _drawing(self, key: Tensor | None) -> AbstractContextManager[object]:
        return KeyedDraws(key) if self.draws and key is not None else nullcontext()

    def _autocast(self, x: Tensor, train: bool) -> torch.autocast:
        # Without autocast's cache: the same name holds other values under every transform and in every step.
        return torch.autocast(x.device.type, torch.bfloat16, enabled=self.half and train, cache_enabled=False)

    def outputs_at(
        self, buffers: Params, x: Tensor, key: Tensor | None = None
    ) -> Callable[[Params], Outputs]:
        """A batch under other parameters: by its own statistics and with the same draws as in training, without a trace in the buffers."""

        def at(params: Params) -> Outputs:
            with torch.no_grad():
                outputs, _ = self.apply(params, buffers, x, train=True, key=key)
            return Outputs(outputs.logits.detach(), outputs.features.detach(), at)

        return at

    def head_at(
        self, params: Params, buffers: Params, key: Tensor | None = None
    ) -> Callable[[Tensor], Tensor]:
        """The last layer under these parameters, as in training; only for modules with `features` and `head`.

        Its running statistics go by the features of the model itself: others, which are put in here, leave no trace.
        """
        # With the key itself its first draw would be that of the body.
        own_key = key ^ 1 if self.draws and key is not None else None

        def head(features: Tensor) -> Tensor:
            state = params | {name: b.clone() for name, b in buffers.items()}
            own = {name[len(HEAD) :]: value for name, value in state.items() if name.startswith(HEAD)}
            last: nn.Module = self._training.inner.head  # type: ignore[assignment]
            with self._autocast(features, train=True), self._drawing(own_key):
                logits: Tensor = functional_call(last, own, (features,))
            return logits.to(self.dtype)

        return head

    def arrange(self, x: Tensor) -> Tensor:
        """Images in channels-last memory format, in which convolutions on a CPU are fastest."""
        return x.contiguous(memory_format=torch.channels_last) if self.has_images and x.dim() == 4 else x

    def load(self, params: Params, buffers: Params) -> nn.Module:
        """A copy of the network as it was given with these values in it, ready for use; frozen parameters stay as they are."""
        return whole_network(self._loaded(params, buffers))

    def own_names(self, tree: Params) -> Params:
        """Parameters or buffers by their names in the network as it was given."""
        return {own_name(self.module, name): value for name, value in tree.items()}

    def _loaded(self, params: Params, buffers: Params) -> nn.Module:
        module = deepcopy(self.module)
        state = dict(module.named_parameters()) | dict(module.named_buffers())
        with torch.no_grad():
            for name, value in (params | buffers).items():
                state[name].copy_(value)
        return module.eval()

    def load_scored(self, params: Params, buffers: Params) -> tuple[nn.Module, Callable[[Tensor], Outputs]]:
        """As `load`, and what this copy says of inputs when it is scored."""
        module = self._loaded(params, buffers)
        return module, _Splitter(module).eval()
