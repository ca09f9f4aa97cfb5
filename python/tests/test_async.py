"""The async variants give what the others give, at once, and a cancelled task takes its request back."""

from __future__ import annotations

import asyncio
import time

import pytest

import llada
from conftest import FACTS, GAPS, QUICK, SORT, eval_prompts


def test_as_the_others(model):
    async def main():
        assert (await model.agenerate(SORT, **QUICK)).tokens == model.generate(SORT, **QUICK).tokens
        assert (await model.achat([("user", FACTS)], **QUICK)).tokens == model.generate(FACTS, **QUICK).tokens
        assert (await model.ainfill(GAPS, **QUICK)).tokens == model.infill(GAPS, **QUICK).tokens
        frames = [frame async for frame in model.astream(SORT, **QUICK)]
        assert [f.ids for f in frames] == [f.ids for f in model.stream(SORT, **QUICK)]
        prompts = eval_prompts(12)
        many = [result.tokens async for result in model.agenerate_many(prompts, **QUICK)]
        assert many == [model.generate(prompt, **QUICK).tokens for prompt in prompts]

    asyncio.run(main())


def test_more_than_there_are_threads(model_path):
    prompts = eval_prompts(32)
    with llada.Model.load(model_path, threads=1, row_budget=512, streams=4) as opened:
        async def main():
            return await asyncio.gather(*[opened.agenerate(prompt, **QUICK) for prompt in prompts])

        async def streams():
            async def last(prompt):
                stream = opened.astream(prompt, **QUICK)
                async for _ in stream:
                    pass
                return stream.result

            return await asyncio.gather(*[last(prompt) for prompt in prompts])

        expected = [opened.generate(prompt, **QUICK).tokens for prompt in prompts]
        assert [result.tokens for result in asyncio.run(main())] == expected
        assert [result.tokens for result in asyncio.run(streams())] == expected


def test_cancelling(model):
    async def main():
        task = asyncio.create_task(model.agenerate(SORT, steps=0, gen_length=200, early_stop="none"))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        begin = time.monotonic()
        assert (await model.agenerate(SORT, **QUICK)).tokens == model.generate(SORT, **QUICK).tokens
        assert time.monotonic() - begin < 1
        async with model.astream(SORT, steps=0, gen_length=200, early_stop="none") as stream:
            async for frame in stream:
                if frame.number == 3:
                    stream.cancel()
        assert stream.result.finish_reason == "interrupted"

    asyncio.run(main())


def test_the_loop_goes_on(model):
    async def main():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.create_task(tick())
        begin = time.monotonic()
        await model.agenerate(SORT, steps=0, gen_length=96, early_stop="none")
        took = time.monotonic() - begin
        ticking.cancel()
        assert ticks > took / 0.1

    asyncio.run(main())
