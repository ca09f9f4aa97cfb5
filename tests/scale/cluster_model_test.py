"""The model of a cluster (tools/simulate_cluster.py) where its result is known without it."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import simulate_cluster as model


class Clusters(unittest.TestCase):
    rates = model.Rates(task_seconds=0.01, link_bytes=1e9, row_bytes=6000)

    def answers(self, replicas, rows, seconds, rates=None, blocks=30):
        out = model.run_data_set(rates or self.rates, replicas, rows, blocks, seconds, spread=0.01)
        return replicas * blocks * rows / out.seconds, out

    def test_few_replicas_are_all_busy(self):
        answers, out = self.answers(replicas=10, rows=64, seconds=0.1)
        self.assertAlmostEqual(answers, 100, delta=2)
        self.assertAlmostEqual(out.driver, 10 * 0.01 / 6.4, delta=0.001)

    def test_the_driver_is_the_limit_of_many(self):
        answers, out = self.answers(replicas=1000, rows=8, seconds=0.05)
        self.assertAlmostEqual(answers, 8 / 0.01, delta=8)
        self.assertGreater(out.driver, 0.99)
        driver, _ = model.most_replicas(self.rates, 8, 0.05)
        self.assertAlmostEqual(driver, 40)
        half, _ = self.answers(replicas=20, rows=8, seconds=0.05)
        self.assertAlmostEqual(half, 20 * 20, delta=20)

    def test_the_link_is_the_limit_of_large_rows(self):
        rates = model.Rates(task_seconds=1e-6, link_bytes=1e6, row_bytes=1e5)
        answers, out = self.answers(replicas=100, rows=10, seconds=0.1, rates=rates)
        self.assertAlmostEqual(answers, 10, delta=0.2)
        self.assertGreater(out.link, 0.99)
        self.assertAlmostEqual(model.most_replicas(rates, 10, 0.1)[1], 1)


if __name__ == "__main__":
    unittest.main()
