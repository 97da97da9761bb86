"""Modular MAX, eager, on a mesh of two slots of the host. The first run of a kernel compiles it, for minutes."""

import signal
from importlib.metadata import version

import numpy as np

from max.driver import CPU
from max.experimental import functional as F
from max.experimental.sharding import (
    DeviceMapping,
    DeviceMesh,
    Partial,
    Replicated,
    Sharded,
    auto_reshard,
)
from max.experimental.sharding._auto_reshard import pick_reshard_action
from max.experimental.sharding.rules.matmul import matmul_rule
from max.experimental.tensor import Tensor

import peer

MESH = DeviceMesh(devices=(CPU(), CPU()), mesh_shape=(2,), axis_names=("tp",))
PLACEMENTS = {"R": Replicated(), "S0": Sharded(0), "S1": Sharded(1), "P": Partial()}


def mapping(placement):
    return DeviceMapping(MESH, (PLACEMENTS[placement],))


def whole(*shape):
    return Tensor.from_dlpack(np.random.rand(*shape).astype(np.float32))


def made(extent, placement):
    if placement == "P":  # Parts that all devices have: those of a product.
        return F.matmul(made(extent, "S1"), made(extent, "S0"))
    return F.transfer_to(whole(extent, extent), mapping(placement))


def matmul_relu():
    a, b = made(8, "S1"), made(8, "S0")
    return lambda: F.relu(F.matmul(a, b))


def elementwise(extent):
    x, y, z = (made(extent, "S0") for _ in range(3))

    def run():
        out = x
        for _ in range(10):
            out = F.mul(F.add(out, y), z)
        return out

    return run


def plan():
    """The choice of placements for a product. MAX keeps none."""
    layouts = (made(8, "S1").layout, made(8, "R").layout)

    def run():
        rows = matmul_rule(*layouts)
        return pick_reshard_action(rows, layouts, op_name="matmul", operand_names=("lhs", "rhs"))

    return run


def redistribute(extent, source, target):
    x, target = made(extent, source), mapping(target)
    return lambda: F.transfer_to(x, target)


def matmul(n):
    a, b = whole(n, n), whole(n, n)
    return lambda: F.matmul(a, b)


ITEMS = {"dispatch/matmul_relu/2": matmul_relu, "plan/matmul/cold": plan}
for size in (peer.KIB_4, peer.MIB_1):
    ITEMS[f"elementwise/20/{size}"] = lambda size=size: elementwise(peer.EXTENT[size])
for change in ("S0-R", "S0-S1", "P-S0", "P-R"):
    for size, extent in peer.EXTENT.items():
        ITEMS[f"redistribute/{change}/{size}"] = lambda extent=extent, change=change: redistribute(
            extent, *change.split("-")
        )
for n in (1024, 2048):
    ITEMS[f"matmul/{n}"] = lambda n=n: matmul(n)

if __name__ == "__main__":
    # With Python's own handler of Ctrl-C each eager call of MAX formats its result, which takes ten times as long.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with auto_reshard(mode="silent"):
        peer.serve({"peer": "MAX", "version": version("max"), "way": "eager", "means": "2 slots of the host"}, ITEMS)
