"""PyTorch. The argument is the way in which it runs:

    plain      no mesh: products, attention and the encoder on one device, all threads
    fake       DTensor on a group of 2 of which this process is one: collectives do nothing, so what is left is dispatch
    alone      DTensor on a group of one process over gloo: dispatch, and the collectives' calls
    gloo       DTensor over 2 processes with gloo on the loopback
    threads    DTensor over 2 threads of one process, with the threaded group of PyTorch's own tests
"""

import os
import queue
import socket
import subprocess
import sys
import threading

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

import peer
from torch_encoder import HEADS, WORDS, Encoder

THREADS = os.cpu_count() or 1


def about(way, means):
    return {"peer": "PyTorch", "version": torch.__version__, "way": way, "means": means}


# One device.


def matmul(n):
    a, b = torch.rand(n, n), torch.rand(n, n)
    return lambda: a @ b


def attention(batch, heads, length, depth):
    q, k, v = (torch.rand(batch, heads, length, depth) for _ in range(3))
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)


def encoder(sentences, length):
    model = Encoder().eval()
    ids, mask = torch.randint(WORDS, (sentences, length)), torch.zeros(sentences, 1, 1, length)
    return lambda: model(ids, mask)


def plain_items():
    items = {f"matmul/{n}": lambda n=n: matmul(n) for n in (1024, 2048)}
    for shape in ((32, 12, 128, 32), (1, 12, 1024, 64)):
        items["attention/" + "x".join(map(str, shape))] = lambda shape=shape: attention(*shape)
    for sentences, length in ((1, 16), (8, 64), (32, 128)):
        for ways in (1, 2):
            name = f"encoder/tp{ways}/{sentences}x{length}"
            items[name] = lambda sentences=sentences, length=length: encoder(sentences, length)
    return items


# DTensor. Every item takes the mesh.


def made(mesh, extent, placement):
    """A square tensor of which this process has its shard, whatever the others have."""
    parts = mesh.size()
    shape = [extent, extent]
    if placement.is_shard():
        shape[placement.dim] //= parts
    return DTensor.from_local(torch.rand(shape), mesh, [placement], run_check=False)


def matmul_relu(mesh):
    a, b = made(mesh, 8, Shard(1)), made(mesh, 8, Shard(0))
    return lambda: torch.relu(a @ b)


def elementwise(mesh, extent):
    x, y, z = (made(mesh, extent, Shard(0)) for _ in range(3))

    def run():
        out = x
        for _ in range(10):
            out = (out + y) * z
        return out

    return run


def plan(mesh):
    """The choice of placements for a product, with empty caches."""
    from torch.distributed.tensor.debug import _clear_sharding_prop_cache as clear

    a, b = made(mesh, 8, Shard(1)), made(mesh, 8, Replicate())
    dispatcher = DTensor._op_dispatcher
    schema = dispatcher.unwrap_to_op_info(torch.ops.aten.mm.default, (a, b), {}).schema

    def run():
        clear()
        return dispatcher.sharding_propagator.propagate_op_sharding_non_cached(schema)

    return run


PLACEMENTS = {"R": Replicate(), "S0": Shard(0), "S1": Shard(1), "P": Partial()}


def redistribute(mesh, extent, source, target):
    x, target = made(mesh, extent, PLACEMENTS[source]), [PLACEMENTS[target]]
    return lambda: x.redistribute(mesh, target)


DISPATCH = {
    "dispatch/matmul_relu/2": matmul_relu,
    "elementwise/20/4KiB": lambda mesh: elementwise(mesh, peer.EXTENT[peer.KIB_4]),
    "plan/matmul/cold": plan,
}

MOVING = {"elementwise/20/1MiB": lambda mesh: elementwise(mesh, peer.EXTENT[peer.MIB_1])}
for change in ("S0-R", "S0-S1", "P-S0", "P-R"):
    for size, extent in peer.EXTENT.items():
        MOVING[f"redistribute/{change}/{size}"] = lambda mesh, extent=extent, change=change: redistribute(
            mesh, extent, *change.split("-")
        )


def on(mesh, items):
    return {name: lambda make=make: make(mesh) for name, make in items.items()}


def start(backend, **arguments):
    dist.init_process_group(backend, **arguments)
    return init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))


def tell(count):
    """The leader of a group says how many calls come next; then all begin at once."""
    dist.broadcast(torch.tensor([count]), src=0)
    dist.barrier()


def told():
    count = torch.zeros(1, dtype=torch.int64)
    dist.broadcast(count, src=0)
    dist.barrier()
    return int(count)


def plain():
    torch.set_num_threads(THREADS)
    peer.serve(about("plain", f"no mesh, {THREADS} threads"), plain_items())


def fake():
    from torch.testing._internal.distributed.fake_pg import FakeStore

    mesh = start("fake", store=FakeStore(), world_size=2, **{"rank": 0})
    peer.serve(about("fake", "DTensor on a group of 2 without transport: dispatch alone, and one device's part of the work"), on(mesh, DISPATCH))


def alone():
    mesh = start("gloo", store=dist.HashStore(), world_size=1, **{"rank": 0})
    peer.serve(about("alone", "DTensor on a group of one process: dispatch, and collectives with nobody"), on(mesh, DISPATCH))


def gloo():
    torch.set_num_threads(max(1, THREADS // 2))
    leads = "RANK" not in os.environ
    if leads:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "RANK": "0"}
        other = subprocess.Popen(
            [sys.executable, __file__, "gloo"], env=os.environ | {"RANK": "1"}, stdin=subprocess.PIPE, text=True
        )
    items = on(start("gloo"), MOVING)
    if not leads:
        for line in sys.stdin:
            peer.follow(items[line.strip()](), told, dist.barrier)
        return

    def measure(name, make):
        print(name, file=other.stdin, flush=True)
        return peer.seconds(make(), tell, dist.barrier)

    peer.serve(about("gloo", "DTensor, 2 processes over gloo on the loopback"), items, measure)
    other.stdin.close()
    other.wait()


def threads():
    from torch.testing._internal.distributed import multi_threaded_pg

    torch.set_num_threads(max(1, THREADS // 2))
    torch._C._distributed_c10d._set_thread_isolation_mode(True)
    multi_threaded_pg._install_threaded_pg()
    store, names = dist.HashStore(), queue.Queue()
    begin = lambda place: on(start("threaded", store=store, world_size=2, **{"rank": place}), MOVING)

    def other():
        with torch.no_grad():
            items = begin(1)
            while (name := names.get()) is not None:
                peer.follow(items[name](), told, dist.barrier)

    thread = threading.Thread(target=other)
    thread.start()
    items = begin(0)

    def measure(name, make):
        names.put(name)
        return peer.seconds(make(), tell, dist.barrier)

    peer.serve(about("threads", "DTensor, 2 threads of one process, with the group of PyTorch's own tests"), items, measure)
    names.put(None)
    thread.join()


if __name__ == "__main__":
    # Weights and inputs want no gradients, in any system of the table. (Inference mode is not for DTensor.)
    torch.set_grad_enabled(False)
    {"plain": plain, "fake": fake, "alone": alone, "gloo": gloo, "threads": threads}[sys.argv[1]]()
