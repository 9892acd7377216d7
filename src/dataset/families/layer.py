# A layer that stays PyTorch's (cuDNN and cuBLAS are hard to beat) while what follows it becomes one Triton kernel over
# the layer's output, as one would write it by hand.

# order: 12
# epilogue: 1..3
# choose SUPER: | Model, self
# choose BLOCK: 512 | 1024 | 2048
# choose KERNEL: epilogue_kernel | elementwise_kernel | fused_kernel
# choose COUNT: n | n_elements

# family: conv1d
# set LAYER: nn.Conv1d(in_channels, out_channels, kernel_size)
# set ARGUMENTS: in_channels, out_channels, kernel_size
# set ATTRIBUTE: conv
# set INPUT: batch_size, in_channels, length
# choose batch_size: 4 | 8 | 16
# choose in_channels: 3 | 8 | 16
# choose out_channels: 16 | 32 | 64
# choose kernel_size: 3 | 5
# choose length: 128 | 256 | 500

# family: conv2d
# set LAYER: nn.Conv2d(in_channels, out_channels, kernel_size)
# set ARGUMENTS: in_channels, out_channels, kernel_size
# set ATTRIBUTE: conv
# set INPUT: batch_size, in_channels, height, width
# choose batch_size: 4 | 8 | 16
# choose in_channels: 3 | 8 | 16
# choose out_channels: 16 | 32 | 64
# choose kernel_size: 3 | 5
# choose height: 32 | 48 | 64
# choose width: 32 | 48 | 64

# family: conv2d_strided
# set LAYER: nn.Conv2d(in_channels, out_channels, kernel_size, stride, padding)
# set ARGUMENTS: in_channels, out_channels, kernel_size, stride, padding
# set ATTRIBUTE: conv
# set INPUT: batch_size, in_channels, height, width
# choose batch_size: 4 | 8 | 16
# choose in_channels: 3 | 8 | 16
# choose out_channels: 16 | 32 | 64
# choose kernel_size: 3 | 5
# choose stride: 2
# choose padding: 1 | 2
# choose height: 32 | 48 | 64
# choose width: 32 | 48 | 64

# family: conv3d
# set LAYER: nn.Conv3d(in_channels, out_channels, kernel_size)
# set ARGUMENTS: in_channels, out_channels, kernel_size
# set ATTRIBUTE: conv
# set INPUT: batch_size, in_channels, depth, height, width
# choose batch_size: 2 | 4
# choose in_channels: 3 | 8
# choose out_channels: 8 | 16
# choose kernel_size: 3
# choose depth: 12 | 16
# choose height: 12 | 16
# choose width: 12 | 16

# family: conv_transpose1d
# set LAYER: nn.ConvTranspose1d(in_channels, out_channels, kernel_size)
# set ARGUMENTS: in_channels, out_channels, kernel_size
# set ATTRIBUTE: conv_transpose
# set INPUT: batch_size, in_channels, length
# choose batch_size: 4 | 8 | 16
# choose in_channels: 3 | 8 | 16
# choose out_channels: 16 | 32 | 64
# choose kernel_size: 3 | 5
# choose length: 128 | 256 | 500

# family: conv_transpose2d
# set LAYER: nn.ConvTranspose2d(in_channels, out_channels, kernel_size)
# set ARGUMENTS: in_channels, out_channels, kernel_size
# set ATTRIBUTE: conv_transpose
# set INPUT: batch_size, in_channels, height, width
# choose batch_size: 4 | 8 | 16
# choose in_channels: 3 | 8 | 16
# choose out_channels: 16 | 32 | 64
# choose kernel_size: 3 | 5
# choose height: 32 | 48 | 64
# choose width: 32 | 48 | 64

# family: conv_transpose3d
# set LAYER: nn.ConvTranspose3d(in_channels, out_channels, kernel_size)
# set ARGUMENTS: in_channels, out_channels, kernel_size
# set ATTRIBUTE: conv_transpose
# set INPUT: batch_size, in_channels, depth, height, width
# choose batch_size: 2 | 4
# choose in_channels: 3 | 8
# choose out_channels: 8 | 16
# choose kernel_size: 3
# choose depth: 12 | 16
# choose height: 12 | 16
# choose width: 12 | 16

# family: linear_layer
# set LAYER: nn.Linear(in_features, out_features)
# set ARGUMENTS: in_features, out_features
# set ATTRIBUTE: linear
# set INPUT: batch_size, in_features
# choose batch_size: 64 | 128 | 200
# choose in_features: 128 | 256 | 500
# choose out_features: 128 | 300 | 512

# family: linear_no_bias
# set LAYER: nn.Linear(in_features, out_features, bias=False)
# set ARGUMENTS: in_features, out_features
# set ATTRIBUTE: proj
# set INPUT: batch_size, in_features
# choose batch_size: 64 | 128 | 200
# choose in_features: 128 | 256 | 500
# choose out_features: 128 | 300 | 512

# family: group_norm_layer
# set LAYER: nn.GroupNorm(num_groups, num_channels)
# set ARGUMENTS: num_groups, num_channels
# set ATTRIBUTE: norm
# set INPUT: batch_size, num_channels, height, width
# choose batch_size: 4 | 8 | 16
# choose num_groups: 4 | 8
# choose num_channels: 16 | 32 | 64
# choose height: 32 | 48 | 64
# choose width: 32 | 48 | 64

# family: max_pool2d
# set LAYER: nn.MaxPool2d(kernel_size, stride)
# set ARGUMENTS: kernel_size, stride
# set ATTRIBUTE: pool
# set INPUT: batch_size, channels, height, width
# choose batch_size: 4 | 8 | 16
# choose channels: 16 | 32 | 64
# choose kernel_size: 2 | 3
# choose stride: 1 | 2
# choose height: 32 | 48 | 64
# choose width: 32 | 48 | 64

# family: avg_pool2d
# set LAYER: nn.AvgPool2d(kernel_size)
# set ARGUMENTS: kernel_size
# set ATTRIBUTE: pool
# set INPUT: batch_size, channels, height, width
# choose batch_size: 4 | 8 | 16
# choose channels: 16 | 32 | 64
# choose kernel_size: 2 | 3
# choose height: 32 | 48 | 64
# choose width: 32 | 48 | 64

# --- problem ---
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    """A layer and what follows it element by element."""

    def __init__(self, _ARGUMENTS_):
        super(_SUPER_).__init__()
        self._ATTRIBUTE_ = _LAYER_

    def forward(self, x):
        out = self._ATTRIBUTE_(x)
        out = _EPILOGUE_(out)
        return out


_SIZES_


def get_inputs():
    return [torch.randn(_INPUT_)]


def get_init_inputs():
    return [_ARGUMENTS_]


# --- solution ---
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _KERNEL_(x_ptr, out_ptr, _COUNT_, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < _COUNT_
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    x = _EPILOGUE_(x)
    tl.store(out_ptr + offsets, x, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, _ARGUMENTS_):
        super(_SUPER_).__init__()
        self._ATTRIBUTE_ = _LAYER_

    def forward(self, x):
        x = self._ATTRIBUTE_(x).contiguous()
        out = torch.empty_like(x)
        _COUNT_ = x.numel()
        _KERNEL_[(triton.cdiv(_COUNT_, _BLOCK_),)](x, out, _COUNT_, BLOCK=_BLOCK_)
        return out
