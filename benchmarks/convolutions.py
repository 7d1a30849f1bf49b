"""Our kernels for convolutions of stacked models, layer by layer: milliseconds and TFLOP/s of the three products.

    python benchmarks/convolutions.py        # on a machine with a GPU

Ten models, batches of 50, bfloat16: the 3x3 layers of ResNet-18 with the CIFAR stem, and the last one of the ConvNet.
"""

from __future__ import annotations

import torch
from triton.testing import do_bench_cudagraph

from counterpoise.kernels.implicit_gemm import convolve, convolve_back, sum_products

MODELS, BATCH = 10, 50
LAYERS = [  # inputs, outputs, height and width, stride
    (64, 64, 32, 1),
    (64, 128, 32, 2),
    (128, 128, 16, 1),
    (128, 256, 16, 2),
    (256, 256, 8, 1),
    (256, 512, 8, 2),
    (512, 512, 4, 1),
    (64, 128, 32, 1),
]


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(MODELS, *shape, device="cuda", dtype=torch.bfloat16)


def main() -> None:
    print(torch.cuda.get_device_name(), torch.__version__)
    for inputs, outputs, size, stride in LAYERS:
        after = (size - 1) // stride + 1
        x, w = draw(BATCH, size, size, inputs), draw(3, 3, inputs, outputs)
        g = draw(BATCH, after, after, outputs)
        runs = {
            "output": lambda x=x, w=w, s=stride: convolve(x, w, s, 1),
            "by input": lambda g=g, w=w, s=stride, n=size: convolve_back(g, w, s, 1, n, n),
            "by weight": lambda x=x, g=g, s=stride: sum_products(x, g, s, 1, 3, 3),
        }
        work = 2e-9 * MODELS * BATCH * after**2 * 9 * inputs * outputs
        spent = {name: do_bench_cudagraph(run) for name, run in runs.items()}
        told = ", ".join(f"{name} {ms:.3f} ms {work / ms:.0f} TFLOP/s" for name, ms in spent.items())
        print(f"  {inputs:>3} -> {outputs:<3} {size:>2}x{size:<2} stride {stride}: {told}", flush=True)


if __name__ == "__main__":
    main()
