"""What the drivers of other systems share: how a call is timed, and the lines that `cargo xtask bench --peers` reads.

A driver prints one line about itself. Then it answers each name of an item on its standard input with one JSON object,
`name` and `seconds` (of one call: the median over samples), until the input ends. By hand:

    echo redistribute/S0-R/1MiB | python with_jax.py
"""

import json
import statistics
import sys
import time

# As in `proof/src/bench/measure.rs`: seconds, and the fewest samples.
WARM_UP = 0.05
MEASURE = 0.25
LEAST = 3
# A sample is long beside the loop around it, which costs more in Python than in Rust.
SAMPLE = 0.002

KIB_4, MIB_1, MIB_64 = "4KiB", "1MiB", "64MiB"
# A square of float32 of that many bytes.
EXTENT = {KIB_4: 32, MIB_1: 512, MIB_64: 4096}


def seconds(run, together=lambda count: None, finish=None):
    """Seconds of one call of `run`: the median over samples.

    `together(count)` is called before the next `count` calls, and with 0 at the end: where several processes or threads
    have to make the same calls, it tells the others (see `follow`). `finish()` is called after them, before the clock
    stops, and waits until all have made theirs: work in which nobody waits for anybody is else that of one of them. It
    takes its time, so that samples with it are longer.
    """

    def timed(count):
        together(count)
        started = time.perf_counter()
        for _ in range(count):
            run()
        if finish:
            finish()
        return (time.perf_counter() - started) / count

    once, began = None, time.perf_counter()
    while once is None or time.perf_counter() - began < WARM_UP:
        once = timed(1)
    sample = 10 * SAMPLE if finish else SAMPLE
    batch = max(1, int(sample / max(once, 1e-9)))
    samples, began = [], time.perf_counter()
    while len(samples) < LEAST or time.perf_counter() - began < MEASURE:
        samples.append(timed(batch))
    together(0)
    return statistics.median(samples)


def follow(run, together, finish):
    """Makes the calls that another one measures: `together()` answers how many come next."""
    while count := together():
        for _ in range(count):
            run()
        finish()


def serve(about, items, measure=lambda name, make: seconds(make())):
    """Says `about` and the names of `items`, then measures what is asked for. `items[name]()` makes the call to time."""
    # What libraries print must not stand between the lines of answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    say = lambda line: print(json.dumps(line), file=answers, flush=True)
    say({**about, "items": list(items)})
    for line in sys.stdin:
        name = line.strip()
        try:
            say({"name": name, "seconds": measure(name, items[name])})
        except Exception as error:  # One item that cannot run must not take the others with it.
            say({"name": name, "error": f"{type(error).__name__}: {error}"})
