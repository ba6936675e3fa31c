#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "base/clock.h"
#include "engine/weights/test_table.h"
#include "engine/weights/weight_store.h"
#include "models/test_files.h"
#include "refit/checkpoint_transport.h"
#include "refit/memory_transport.h"

// What an update and a load cost beside the bytes. Not for sanitizers.
namespace rlgen::fleet_test {
namespace {

using engine::WeightStore;
using engine::test::large_table;

template <typename Fn>
double seconds_of(Fn fn) {
  const auto begin = std::chrono::steady_clock::now();
  fn();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// A trainer with that many matrices of one size, and a store that serves them.
class ManyTensors {
 public:
  ManyTensors(int count, int64_t rows, int64_t columns)
      : bytes_(size_t(count * rows * columns * 2), std::byte{0x11}),
        store_(table_of(count, rows, columns), {.clock = &clock_}) {
    const auto size = size_t(rows * columns * 2);
    for (int i = 0; i < count; ++i) {
      tensors_.push_back({name_of(i), dense_view(bytes_.data() + size_t(i) * size, DType::kBFloat16,
                                                 {rows, columns})});
    }
  }

  void update() {
    const auto serial = ++serial_;
    const Status status = refit::send_tensors(
        tensors_, {.update_id = std::to_string(serial), .serial = serial}, store_, nullptr);
    EXPECT_TRUE(status.ok()) << status;
  }

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  static std::string name_of(int i) { return "tensor." + std::to_string(100'000 + i); }

  static std::shared_ptr<const models::NameTable> table_of(int count, int64_t rows,
                                                           int64_t columns) {
    auto table = std::make_shared<models::NameTable>();
    for (int i = 0; i < count; ++i) {
      table->slots.push_back({.name = name_of(i), .n = rows, .k = columns});
      table->entries.push_back({.name = name_of(i), .shape = {rows, columns}, .slot = i});
    }
    return table;
  }

  std::vector<std::byte> bytes_;
  std::vector<refit::NamedTensor> tensors_;
  ManualClock clock_;
  WeightStore store_;
  WeightSerial serial_ = 0;
};

// A tenth of 10,000 tensors of 64 KiB against one copy of their bytes; and 10,000 small ones, each
// of which takes as long as one of 1,000.
TEST(UpdateCost, FB224_ManySmallTensorsTakeThreeCopiesAtMost) {
  constexpr int kTensors = 1000;
  ManyTensors trainer(kTensors, 32, 1024);
  std::vector<std::byte> copy(trainer.bytes().size(), std::byte{1});
  for (int i = 0; i < 2; ++i) trainer.update();  // both sets are touched
  double copied = 1e9;
  double updated = 1e9;
  for (int turn = 0; turn < 100 && (turn < 5 || updated > 3 * copied); ++turn) {
    copied = std::min(
        copied, seconds_of([&] { std::memcpy(copy.data(), trainer.bytes().data(), copy.size()); }));
    updated = std::min(updated, seconds_of([&] { trainer.update(); }));
  }
  std::printf("1,000 tensors of 64 KiB: %.2f copies, %.0f tensors a second\n", updated / copied,
              kTensors / updated);
  EXPECT_LT(updated, 3 * copied);

  ManyTensors few(1000, 16, 16);
  ManyTensors many(10'000, 16, 16);
  double of_few = 1e9;
  double of_many = 1e9;
  for (int turn = 0; turn < 50 && (turn < 3 || of_many > 20 * of_few); ++turn) {
    of_few = std::min(of_few, seconds_of([&] { few.update(); }));
    of_many = std::min(of_many, seconds_of([&] { many.update(); }));
  }
  std::printf("tensors of 512 bytes: %.0f us for 1,000, %.0f us for 10,000\n", of_few * 1e6,
              of_many * 1e6);
  EXPECT_LT(of_many, 20 * of_few);
}

// Pages of files that this process has mapped and touched.
int64_t resident_file_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key;) {
    int64_t kilobytes = 0;
    if (key == "RssFile:" && status >> kilobytes) return kilobytes * 1024;
  }
  return -1;
}

// The file is still mapped when its last tensor was packed, and yet its pages are gone, but for
// some at the ends of tensors and those of the program itself.
TEST(LoadCost, PagesOfTheFileAreDroppedOncePacked) {
  constexpr size_t kTensor = size_t{32} << 20;
  models::test::TempFolder folder;
  folder.write(
      "model.safetensors",
      models::test::image(
          R"({"w0":{"dtype":"BF16","shape":[4096,4096],"data_offsets":[0,33554432]},)"
          R"("w1":{"dtype":"BF16","shape":[4096,4096],"data_offsets":[33554432,67108864]}})",
          std::string(2 * kTensor, '\x11')));
  const auto checkpoint = *models::SafetensorsFolder::open(folder.path());
  ManualClock clock;
  WeightStore store(large_table(), {.clock = &clock});
  ThreadPool pool(2);
  const int64_t before = resident_file_bytes();
  if (before < 0) GTEST_SKIP() << "the kernel does not say";
  const Status status =
      refit::send_checkpoint(checkpoint, {.update_id = "load", .serial = 1}, store, &pool);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_LT(resident_file_bytes() - before, int64_t{2 * kTensor} / 4);
  EXPECT_EQ(checkpoint.find("w1")->bytes.back(), std::byte{0x11});
}

}  // namespace
}  // namespace rlgen::fleet_test
