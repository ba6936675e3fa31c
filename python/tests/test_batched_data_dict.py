"""BatchedDataDict: the container that batches travel in."""

from __future__ import annotations

import unittest
from typing import TYPE_CHECKING, Any

from support import has, needs_numpy, needs_pydantic, needs_torch

if TYPE_CHECKING or has("numpy"):
    import numpy as np

    from rlgen.errors import BadInputError, MissingKeyError
    from rlgen.generation.batched_data_dict import BatchedDataDict, is_batch


def numbers(*rows: Any) -> Any:
    """An array of int64."""
    return np.array(rows, np.int64)


@needs_numpy
@needs_pydantic
class BatchedDataDictTest(unittest.TestCase):
    """With numpy arrays."""

    def setUp(self) -> None:
        self.batch: BatchedDataDict[Any] = BatchedDataDict(
            {"ids": numbers([1, 2], [3, 4], [5, 6], [7, 8], [9, 10]), "names": list("abcde")}
        )

    def test_t4_merge_pads_to_the_widest_and_keeps_the_order(self) -> None:
        first = {"output_ids": numbers([1, 2, 3, 5, 9], [4, 6, 7, 9, 9]), "logprobs": np.ones((2, 5), np.float32)}
        second = {"output_ids": numbers([8, 1, 2, 3, 4, 5, 9]), "logprobs": np.ones((1, 7), np.float32)}
        empty = {"output_ids": np.zeros((0, 0), np.int64), "logprobs": np.zeros((0, 0), np.float32)}
        merged: BatchedDataDict[Any] = BatchedDataDict.from_batches([first, empty, second], {"output_ids": 9})
        rows = [[1, 2, 3, 5, 9, 9, 9], [4, 6, 7, 9, 9, 9, 9], [8, 1, 2, 3, 4, 5, 9]]
        self.assertEqual(merged["output_ids"].tolist(), rows)
        self.assertEqual(merged["logprobs"][0].tolist(), [1] * 5 + [0] * 2)
        self.assertEqual(merged["logprobs"].dtype, np.float32)
        self.assertEqual(list(merged), ["logprobs", "output_ids"])

    def test_t4_merge_of_versions_and_routes(self) -> None:
        routes = [np.full((1, width, 1, 3), 7, np.int8) for width in (1, 2)]
        versions = [numbers([3]), numbers([3, 4])]
        parts = [{"routed_experts": r, "weight_versions": v} for r, v in zip(routes, versions, strict=True)]
        merged: BatchedDataDict[Any] = BatchedDataDict.from_batches(parts)
        self.assertEqual(merged["routed_experts"][0].tolist(), [[[7, 7, 7]], [[0, 1, 2]]])
        self.assertEqual(merged["routed_experts"].dtype, np.int8)
        self.assertEqual(merged["weight_versions"].tolist(), [[3, -1], [3, 4]])

    def test_t5_key_in_some_shards_only(self) -> None:
        empty = {"a": numbers()[:0]}
        with self.assertRaisesRegex(MissingKeyError, r"truncated is missing in the batches \[2\]") as caught:
            BatchedDataDict.from_batches(
                [{"a": numbers(1), "truncated": numbers(0)}, empty, {"a": numbers(2)}]
            )
        self.assertIsInstance(caught.exception, KeyError)

    def test_merge_of_lists_and_of_nothing(self) -> None:
        merged: BatchedDataDict[Any] = BatchedDataDict.from_batches([{"x": ["a"]}, {"x": ["b", "c"]}])
        self.assertEqual(merged["x"], ["a", "b", "c"])
        self.assertEqual(BatchedDataDict.from_batches([]).size, 0)
        with self.assertRaisesRegex(BadInputError, "x is a int"):
            BatchedDataDict.from_batches([{"x": 3, "y": [1]}])

    def test_rows(self) -> None:
        self.assertEqual(self.batch.size, 5)
        self.assertEqual(self.batch.slice(1, 3)["names"], ["b", "c"])
        self.assertEqual(self.batch.select_indices([4, 0])["ids"].tolist(), [[9, 10], [1, 2]])
        self.assertEqual(self.batch.repeat_interleave(2)["names"], list("aabbccddee"))
        self.assertEqual(self.batch.get_batch(1, 2)["names"], ["c", "d"])
        self.assertEqual(self.batch.slice(0, 4).chunk(1, 2)["names"], ["c", "d"])
        self.assertEqual([part["names"] for part in self.batch.make_microbatch_iterator(5)], [list("abcde")])
        self.batch.truncate_tensors(1, 1)
        self.assertEqual(self.batch["ids"].shape, (5, 1))
        self.assertIsInstance(self.batch.get_dict(), dict)

    def test_shards(self) -> None:
        sizes = [part.size for part in self.batch.shard_by_batch_size(4, allow_uneven_shards=True)]
        self.assertEqual(sizes, [2, 2, 1, 0])
        nine: BatchedDataDict[Any] = BatchedDataDict({"x": list(range(9))})
        self.assertEqual([part.size for part in nine.shard_by_batch_size(4, allow_uneven_shards=True)], [3, 3, 3, 0])
        eight: BatchedDataDict[Any] = BatchedDataDict({"x": list(range(8))})
        self.assertEqual([p["x"] for p in eight.shard_by_batch_size(2)], [[0, 1, 2, 3], [4, 5, 6, 7]])
        self.assertEqual([p["x"] for p in eight.shard_by_batch_size(2, 4)], [[0, 1, 4, 5], [2, 3, 6, 7]])

    def test_what_does_not_divide_is_refused(self) -> None:
        for call in (
            lambda: self.batch.chunk(0, 2),
            lambda: self.batch.shard_by_batch_size(2),
            lambda: self.batch.get_batch(3, 2),
            lambda: list(self.batch.make_microbatch_iterator(2)),
            lambda: BatchedDataDict({"a": [1], "b": [1, 2]}).size,
        ):
            with self.assertRaises(BadInputError):
                call()

    def test_batches_are_known_by_their_methods(self) -> None:
        self.assertTrue(is_batch(self.batch))
        self.assertFalse(is_batch({"ids": [1]}))

    @needs_torch
    def test_with_torch(self) -> None:
        import torch

        merged: BatchedDataDict[Any] = BatchedDataDict.from_batches(
            [{"x": torch.ones(1, 2, dtype=torch.bfloat16)}, {"x": torch.ones(1, 3, dtype=torch.bfloat16)}], {"x": 5}
        )
        self.assertEqual(merged["x"].tolist(), [[1, 1, 5], [1, 1, 1]])
        self.assertIs(merged["x"].dtype, torch.bfloat16)
        self.assertIs(merged.to("cpu"), merged)


if __name__ == "__main__":
    unittest.main()
