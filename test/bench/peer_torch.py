#!/usr/bin/env python3
"""Step time of the same networks in PyTorch: peer_torch.py TASK THREADS SECONDS prints the 20th percentile in ms.

The best layout for the CPU (channels last for images), inputs in memory, the optimizer of the muster config.
"""
import sys
import time

import torch
from torch import nn

task, threads, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
torch.set_num_threads(threads)
torch.manual_seed(1)


class Block(nn.Module):
    """Residual block of He et al. 2016; a 1x1 convolution where the shape changes."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity() if stride == 1 else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu_(self.main(x) + self.shortcut(x))


def resnet20():
    layers = [nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True)]
    inputs = 16
    for width in (16, 32, 64):
        for k in range(3):
            layers.append(Block(inputs, width, 2 if k == 0 and width > 16 else 1))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


if task == "mlp":
    net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    x = torch.randn(128, 784)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
elif task == "cnn":
    net = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10))
    x = torch.randn(128, 1, 28, 28)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
else:
    net = resnet20()
    x = torch.randn(128, 3, 32, 32)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
if x.dim() == 4:
    net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
y = torch.randint(0, 10, (128,))
loss_function = nn.CrossEntropyLoss()


def step():
    optimizer.zero_grad(set_to_none=True)
    loss_function(net(x), y).backward()
    optimizer.step()


for _ in range(5):
    step()
times = []
end = time.perf_counter() + seconds
while time.perf_counter() < end:
    begin = time.perf_counter()
    step()
    times.append(time.perf_counter() - begin)
times.sort()
print(f"{1e3 * times[len(times) // 5]:.3f}")
