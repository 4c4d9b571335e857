"""Two image classifiers in plain PyTorch that take images of any size: ResNet and ViT.

Without the layers whose backward pass has no deterministic kernel: the stem halves the image by
a second strided convolution instead of pooling, the head averages by mean(), and ViT computes
its position code for the grid at hand instead of interpolating a learned one.
"""

import torch
import torch.nn.functional as F
from torch import nn


def convolution(inner, outer, size, stride=1, activate=True):
    layers = [
        nn.Conv2d(inner, outer, size, stride, size // 2, bias=False),
        nn.BatchNorm2d(outer),
    ]
    return nn.Sequential(*layers, nn.ReLU(inplace=True)) if activate else nn.Sequential(*layers)


class Bottleneck(nn.Module):
    def __init__(self, inner, width, stride):
        super().__init__()
        outer = 4 * width
        self.path = nn.Sequential(
            convolution(inner, width, 1),
            convolution(width, width, 3, stride),
            convolution(width, outer, 1, activate=False),
        )
        self.short = nn.Identity()
        if stride != 1 or inner != outer:
            self.short = convolution(inner, outer, 1, stride, activate=False)

    def forward(self, x):
        return F.relu(self.path(x) + self.short(x), inplace=True)


class ResNet(nn.Module):
    """ResNet-50 with depths (3, 4, 6, 3) and width 64."""

    def __init__(self, depths, width, classes):
        super().__init__()
        layers = [convolution(3, width, 7, 2), convolution(width, width, 3, 2)]
        inner = width
        for stage, depth in enumerate(depths):
            for place in range(depth):
                stride = 2 if stage and not place else 1
                layers.append(Bottleneck(inner, width << stage, stride))
                inner = 4 * (width << stage)
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(inner, classes)

    def forward(self, images):
        return self.head(self.body(images).mean((2, 3)))


class Encoder(nn.Module):
    """A layer of ViT."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.feed_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        batch, tokens, width = x.shape
        shape = (batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = self.qkv(self.attention_norm(x)).view(shape).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        x = x + self.out(mixed.reshape(batch, tokens, width))
        return x + self.feed(self.feed_norm(x))


class ViT(nn.Module):
    """ViT-B/16 with 12 layers of width 768 and 12 heads. The image's side must divide by 16."""

    def __init__(self, layers, width, heads, classes):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.body = nn.Sequential(*(Encoder(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images):
        grid = self.patches(images)
        x = grid.flatten(2).transpose(1, 2)
        x = self.body(x + position_code(grid.shape[2], x.shape[2], x))
        return self.head(self.norm(x).mean(1))


def position_code(side, width, like):
    """Sines and cosines of both coordinates, a quarter of the width each."""
    steps = torch.arange(width // 4, device=like.device) / (width // 4)
    angles = torch.outer(torch.arange(side, device=like.device).float(), 10000.0**-steps)
    line = torch.cat((angles.sin(), angles.cos()), dim=1)
    rows = line[:, None].expand(side, side, -1)
    return torch.cat((rows, rows.transpose(0, 1)), dim=2).reshape(side * side, width)
