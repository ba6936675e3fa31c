"""rlgen.errors: one class for each category, each also a built-in."""

from __future__ import annotations

import inspect
import pickle
import unittest

from rlgen import errors
from rlgen.errors import RlgenError, from_status


class ErrorsTest(unittest.TestCase):
    """What native errors become."""

    def test_categories_and_built_ins(self) -> None:
        for status, kind, builtin in [
            ("INVALID_ARGUMENT", errors.BadInputError, ValueError),
            ("NOT_FOUND", errors.BadInputError, ValueError),
            ("UNIMPLEMENTED", errors.UnsupportedError, NotImplementedError),
            ("UNAVAILABLE", errors.ShardLostError, RuntimeError),
            ("DEADLINE_EXCEEDED", errors.DeadlineError, TimeoutError),
            ("RESOURCE_EXHAUSTED", errors.OutOfCapacityError, RuntimeError),
            ("DATA_LOSS", errors.CorruptDataError, RuntimeError),
            ("FAILED_PRECONDITION", errors.WrongStateError, RuntimeError),
            ("CANCELLED", errors.CancelledError, RuntimeError),
            ("INTERNAL", errors.InternalError, RuntimeError),
        ]:
            with self.subTest(status=status):
                error = from_status(status, "a_code", "the text")
                self.assertIs(type(error), kind)
                self.assertIsInstance(error, builtin)
                self.assertEqual((str(error), error.code), ("the text", "a_code"))

    def test_expected_type_wins(self) -> None:
        for error_type, kind, builtin in [
            ("KeyError", errors.MissingKeyError, KeyError),
            ("AssertionError", errors.PreconditionError, AssertionError),
            ("ValueError", errors.BadInputError, ValueError),
            ("RuntimeError", errors.WrongStateError, RuntimeError),
            ("NotImplementedError", errors.UnsupportedError, NotImplementedError),
            ("TimeoutError", errors.DeadlineError, TimeoutError),
            ("GenerationUnavailable", errors.GenerationUnavailable, RuntimeError),
            ("NoHealthyShards", errors.NoHealthyShards, RuntimeError),
            ("GenerationFleetExhausted", errors.GenerationFleetExhausted, RuntimeError),
            ("NoSurvivingShards", errors.NoSurvivingShards, RuntimeError),
            ("RefitAborted", errors.RefitAborted, RuntimeError),
            ("IPCWeightManifestError", errors.IPCWeightManifestError, ValueError),
        ]:
            with self.subTest(error_type=error_type):
                error = from_status("INVALID_ARGUMENT", "c", "the text", error_type)
                self.assertIs(type(error), kind)
                self.assertIsInstance(error, builtin)
                self.assertEqual(str(error), "the text")

    def test_every_class_is_an_rlgen_error_and_survives_a_pickle(self) -> None:
        classes = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]
        self.assertGreater(len(classes), 15)
        for kind in classes:
            self.assertTrue(issubclass(kind, RlgenError))
            back = pickle.loads(pickle.dumps(kind("text")))
            self.assertIs(type(back), kind)
            self.assertEqual(str(back), "text")


if __name__ == "__main__":
    unittest.main()
