"""JAX on two devices of the host, eager: nothing of ours is under `jit`, each call is waited for."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import peer

AUTO = jax.make_mesh((2,), ("tp",), axis_types=(AxisType.Auto,))
# Only meshes of this type have arrays whose parts are still to be added.
EXPLICIT = jax.make_mesh((2,), ("tp",), axis_types=(AxisType.Explicit,))

SPECS = {
    "R": PartitionSpec(),
    "S0": PartitionSpec("tp"),
    "S1": PartitionSpec(None, "tp"),
    "P": PartitionSpec(None, None, unreduced={"tp"}),
}


def made(extent, placement, mesh=AUTO):
    x = jnp.ones((extent, extent), jnp.float32)
    return jax.block_until_ready(jax.device_put(x, NamedSharding(mesh, SPECS[placement])))


def waited(run):
    return lambda: jax.block_until_ready(run())


def matmul_relu():
    a, b = made(8, "S1"), made(8, "S0")
    return waited(lambda: jax.nn.relu(a @ b))


def elementwise(extent):
    x, y, z = (made(extent, "S0") for _ in range(3))

    def run():
        out = x
        for _ in range(10):
            out = (out + y) * z
        return out

    return waited(run)


def redistribute(extent, source, target):
    if source == "P":
        a, b = made(extent, "S1", EXPLICIT), made(extent, "S0", EXPLICIT)
        x = jax.block_until_ready(jnp.matmul(a, b, out_sharding=NamedSharding(EXPLICIT, SPECS["P"])))
        target = NamedSharding(EXPLICIT, SPECS[target])
        return waited(lambda: jax.sharding.reshard(x, target))
    x, target = made(extent, source), NamedSharding(AUTO, SPECS[target])
    return waited(lambda: jax.device_put(x, target))


def matmul(n):
    a, b = (jax.random.uniform(jax.random.key(i), (n, n)) for i in range(2))
    return waited(lambda: a @ b)


def attention(batch, heads, length, depth):
    # The layout of the function's own choice: heads after the sequence.
    q, k, v = (jax.random.uniform(jax.random.key(i), (batch, length, heads, depth)) for i in range(3))
    return waited(lambda: jax.nn.dot_product_attention(q, k, v))


ITEMS = {"dispatch/matmul_relu/2": matmul_relu}
for size in (peer.KIB_4, peer.MIB_1):
    ITEMS[f"elementwise/20/{size}"] = lambda size=size: elementwise(peer.EXTENT[size])
for change in ("S0-R", "S0-S1", "P-S0", "P-R"):
    for size, extent in peer.EXTENT.items():
        ITEMS[f"redistribute/{change}/{size}"] = lambda extent=extent, change=change: redistribute(
            extent, *change.split("-")
        )
for n in (1024, 2048):
    ITEMS[f"matmul/{n}"] = lambda n=n: matmul(n)
for shape in ((32, 12, 128, 32), (1, 12, 1024, 64)):
    ITEMS["attention/" + "x".join(map(str, shape))] = lambda shape=shape: attention(*shape)

if __name__ == "__main__":
    peer.serve({"peer": "JAX", "version": jax.__version__, "way": "eager", "means": "no jit, 2 devices of the host"}, ITEMS)
