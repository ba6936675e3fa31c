"""rlgen.wait."""

from __future__ import annotations

import threading
import unittest

from rlgen import futures
from rlgen.errors import BadInputError, DeadlineError


class FuturesTest(unittest.TestCase):
    """Results that come later."""

    def test_results_in_order(self) -> None:
        first = futures.start(lambda: 1, "first")
        second = futures.start(lambda: 2, "second")
        self.assertEqual(futures.wait([second, first]), [2, 1])
        self.assertEqual(futures.wait(first), 1)
        self.assertEqual(futures.wait([]), [])

    def test_error_comes_through(self) -> None:
        def fail() -> None:
            raise TimeoutError("of the work itself")

        with self.assertRaisesRegex(TimeoutError, "of the work itself"):
            futures.wait(futures.start(fail, "fails"), 5)

    def test_deadline(self) -> None:
        event = threading.Event()
        late = futures.start(event.wait, "late")
        self.assertFalse(futures.is_done(late))
        with self.assertRaisesRegex(DeadlineError, "0.01 s"):
            futures.wait([late], 0.01)
        event.set()
        futures.wait(late)
        self.assertTrue(futures.is_done(late))

    def test_times_that_are_none_are_refused(self) -> None:
        for wrong in (True, False, float("nan")):
            with self.assertRaisesRegex(BadInputError, f"timeout_s is {wrong}"):
                futures.wait([], wrong)

    def test_what_is_no_future_is_refused(self) -> None:
        for call in (lambda: futures.wait([3]), lambda: futures.is_done(3)):
            with self.assertRaisesRegex(BadInputError, "a int is no future"):
                call()


if __name__ == "__main__":
    unittest.main()
