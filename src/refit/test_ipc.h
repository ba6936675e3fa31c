#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <random>

#include "refit/faulty_sink.h"
#include "refit/ipc_endpoint.h"
#include "refit/ipc_receiver.h"
#include "refit/ipc_sender.h"

namespace rlgen::refit {

// A sender and a receiver of one update of twelve tensors, the receiver on a thread of its own.
class IpcTest : public ::testing::Test {
 protected:
  IpcTest() {
    std::mt19937 random(5);
    for (int i = 0; i < 12; ++i) {
      ManifestEntry entry{.name = "layers." + std::to_string(i), .shape = {}, .digest = {}};
      entry.dtype = i % 2 == 0 ? DType::kBFloat16 : DType::kFloat32;
      entry.shape = i == 7 ? Shape({70, 100}) : Shape({1 + i, 33});
      std::vector<std::byte> bytes(size_t(entry.shape.num_elements() * size_of(entry.dtype)));
      for (std::byte& byte : bytes) byte = std::byte(random());
      spec_.manifest.push_back(entry);
      tensors_[entry.name] = bytes;
    }
    spec_.update_id = "u";
    spec_.version = 4;
    static int made = 0;
    endpoint_ =
        *ipc_endpoint(testing::TempDir(), std::to_string(::getpid()), std::to_string(++made));
  }

  std::future<StatusOr<IpcReport>> receive(IpcReceiveOptions options = {}) {
    options.timeout =
        std::min<std::chrono::milliseconds>(options.timeout, std::chrono::seconds(20));
    return std::async(std::launch::async,
                      [this, options] { return receive_ipc(endpoint_, spec_, sink_, options); });
  }
  IpcSender sender(int64_t buffer_bytes = 1 << 14) const {
    auto made = IpcSender::create(
        endpoint_, {.buffer_bytes = buffer_bytes, .timeout = std::chrono::seconds(20)});
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }
  TensorView view(const std::string& name) const {
    const auto entry = std::ranges::find(spec_.manifest, name, &ManifestEntry::name);
    return dense_view(tensors_.at(name).data(), entry->dtype, entry->shape);
  }
  Status send_all(IpcSender& to) const {
    for (const ManifestEntry& entry : spec_.manifest) {
      RLGEN_RETURN_IF_ERROR(to.send(entry.name, view(entry.name)));
    }
    return to.finish();
  }

  Tensors tensors_;
  UpdateSpec spec_;
  std::string endpoint_;
  FaultySink sink_;
};

}  // namespace rlgen::refit
