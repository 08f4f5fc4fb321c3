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
if task == "mlp":
    net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    x = torch.randn(128, 784)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
else:
    net = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10))
    net = net.to(memory_format=torch.channels_last)
    x = torch.randn(128, 1, 28, 28).to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
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
