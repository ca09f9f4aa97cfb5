#!/usr/bin/env python3
"""A model of a Ray cluster that answers a data set, or serves: how many replicas a head node and an object store bear
(docs/lab/scale.md). All times are modelled; the rates that go in are measured by --measure.

    simulate_cluster.py [--answers 0.5,20] [--rows 8,64,512] [--replicas 10,100,1000]
    simulate_cluster.py --measure      # this machine's rates, with Ray (LLADA_SCALE_PYTHON runs it)

Of a data set: a block of rows goes from where it lies to a replica, which answers its rows; the driver hands on each
block and takes its end, one after the other; bytes pass the link of the machine that has the data. Of a server: a
request passes one proxy. Replicas differ in speed by answers' lengths (lognormal), which is the straggler's share.
"""
import argparse
import dataclasses
import heapq
import math
import os
import random
import time


@dataclasses.dataclass(frozen=True)
class Rates:
    """Measured with Ray 2.60 on two cores of an AMD EPYC that other programs used too."""
    task_seconds: float = 0.0099  # of the driver for one block: handing it on and taking its end
    actor_seconds: float = 0.75  # for one actor's start, others' starts overlapping
    link_bytes: float = 0.7e9  # a second, into an object store and out; a network of 10 Gb/s has more
    row_bytes: float = 6000.0  # in and out: a prompt, an answer, its ids
    proxy_requests: float = 208.0  # a second that one of Ray Serve's proxies hands on


@dataclasses.dataclass
class Outcome:
    seconds: float
    driver: float  # share of the time that it was busy
    link: float


def run_data_set(rates, replicas, rows, blocks_each, answer_seconds, spread=0.3, seed=1):
    """Blocks of `rows` rows, `blocks_each` for every replica, each of which works on one and has the next one ready."""
    draw = random.Random(seed)
    blocks = replicas * blocks_each
    # A block's time is a sum of its rows': the spread of one row's shrinks with their number.
    sigma = math.sqrt(math.log(1 + spread**2 / rows))
    transfer = rows * rates.row_bytes / rates.link_bytes
    driver_free = link_free = driver_busy = link_busy = end = 0.0
    free = [0.0] * replicas  # when its last block will be done
    # The time at which a replica asks for a block, one ahead of the one that it works on.
    asks = [(0.0, number) for number in range(replicas) for _ in range(min(2, blocks_each))]
    heapq.heapify(asks)
    left = blocks
    while left:
        asked, number = heapq.heappop(asks)
        left -= 1
        driver_free = max(driver_free, asked) + rates.task_seconds
        driver_busy += rates.task_seconds
        link_free = max(link_free, driver_free) + transfer
        link_busy += transfer
        begin = max(free[number], link_free)
        free[number] = begin + rows * answer_seconds * math.exp(draw.gauss(-sigma * sigma / 2, sigma))
        end = max(end, free[number])
        # It asks again when the block before this one is done, so that one waits while one is computed.
        heapq.heappush(asks, (begin, number))
    return Outcome(end, driver_busy / end, link_busy / end)


def most_replicas(rates, rows, answer_seconds):
    """Before the driver, and before the link, has more to do than it can."""
    block = rows * answer_seconds
    return block / rates.task_seconds, block / (rows * rates.row_bytes / rates.link_bytes)


def print_tables(rates, args):
    print(f"driver {rates.task_seconds * 1e3:.1f} ms a block, link {rates.link_bytes / 1e9:.2f} GB/s, "
          f"{rates.row_bytes / 1e3:.1f} KB a row (modelled)")
    print("\n| answers/s of a replica | rows of a block | replicas | answers/s | of the ideal | driver busy | link busy "
          "| blocks under way, MB |\n|---|---|---|---|---|---|---|---|")
    for rate in args.answers:
        for rows in args.rows:
            for replicas in args.replicas:
                out = run_data_set(rates, replicas, rows, args.blocks, 1 / rate)
                answers = replicas * args.blocks * rows / out.seconds
                print(f"| {rate:g} | {rows} | {replicas:,} | {answers:,.1f} | {answers / replicas / rate:.0%} "
                      f"| {out.driver:.0%} | {out.link:.0%} | {2e-6 * replicas * rows * rates.row_bytes:,.0f} |")
    print("\n| answers/s of a replica | rows of a block | replicas until the driver is the limit | until the link is "
          "|\n|---|---|---|---|")
    for rate in args.answers:
        for rows in args.rows:
            driver, link = most_replicas(rates, rows, 1 / rate)
            print(f"| {rate:g} | {rows} | {driver:,.0f} | {link:,.0f} |")
    print("\n| answers/s of a replica | replicas that serve | answers/s | proxies needed | seconds to start all "
          "|\n|---|---|---|---|---|")
    for rate in args.answers:
        for replicas in args.replicas:
            print(f"| {rate:g} | {replicas:,} | {replicas * rate:,.1f} "
                  f"| {max(1, math.ceil(replicas * rate / rates.proxy_requests)):,} "
                  f"| {replicas * rates.actor_seconds:,.0f} |")


class Idle:
    """A replica whose answers cost nothing."""

    def __call__(self, rows):
        return rows


def measure():
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # every address is 127.0.0.1
    import numpy
    import ray
    import ray.data
    import urllib.request
    from ray import serve

    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False

    def seconds_of(blocks):
        begin = time.monotonic()
        ray.data.from_items([{"id": i} for i in range(blocks)], override_num_blocks=blocks).map_batches(
            Idle, compute=ray.data.ActorPoolStrategy(size=2), num_cpus=1).materialize()
        return time.monotonic() - begin

    seconds_of(20)
    few, many = seconds_of(100), seconds_of(1100)
    print(f"task_seconds {(many - few) / 1000:.4f}")

    actor = ray.remote(num_cpus=0.01)(Idle)
    begin = time.monotonic()
    actors = [actor.remote() for _ in range(8)]
    ray.get([each.__call__.remote(1) for each in actors])
    print(f"actor_seconds {(time.monotonic() - begin) / 8:.2f}")
    for each in actors:
        ray.kill(each)

    data = numpy.zeros(64 << 20, numpy.uint8)
    begin = time.monotonic()
    for _ in range(8):
        ray.get(ray.put(data)).sum()
    print(f"link_bytes of one object store, written and read: {8 * data.nbytes / (time.monotonic() - begin):.2e}")

    @serve.deployment
    class Reply:
        async def __call__(self, _):
            return "ok"

    import socket
    from concurrent.futures import ThreadPoolExecutor

    with socket.socket() as link:
        link.bind(("127.0.0.1", 0))
        port = link.getsockname()[1]
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    serve.run(Reply.bind())

    def ask(_):
        return urllib.request.urlopen(f"http://127.0.0.1:{port}/").read()

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(ask, range(200)))
        begin = time.monotonic()
        list(threads.map(ask, range(1000)))
    print(f"proxy_requests {1000 / (time.monotonic() - begin):.0f}")
    serve.shutdown()
    ray.shutdown()


def main():
    numbers = lambda text: [int(word) for word in text.split(",")]
    parser = argparse.ArgumentParser()
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--answers", type=lambda text: [float(word) for word in text.split(",")], default=[0.5, 20])
    parser.add_argument("--rows", type=numbers, default=[8, 64, 512])
    parser.add_argument("--replicas", type=numbers, default=[10, 100, 1000])
    parser.add_argument("--blocks", type=int, default=20)
    for field in dataclasses.fields(Rates):
        parser.add_argument("--" + field.name.replace("_", "-"), type=float, default=field.default)
    args = parser.parse_args()
    if args.measure:
        return measure()
    print_tables(Rates(**{field.name: getattr(args, field.name) for field in dataclasses.fields(Rates)}), args)


if __name__ == "__main__":
    main()
