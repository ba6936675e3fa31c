#include <unistd.h>

#include <cstring>
#include <functional>
#include <future>
#include <limits>

#include "contract/error_type.h"
#include "refit/fleet.h"
#include "refit/ipc_endpoint.h"
#include "refit/ipc_receiver.h"
#include "refit/ipc_sender.h"

// Which type the errors of an update from another process have: those of the manifest their own,
// all others that of their category.
namespace rlgen::fleet_test {
namespace {

using std::chrono::seconds;

constexpr const char* kOfManifest = "IPCWeightManifestError";

class IpcErrors : public ::testing::Test {
 protected:
  IpcErrors() { EXPECT_TRUE(fleet_.update(a_, KvPolicy::kRecompute, 3).ok()); }

  UpdateSpec spec() {
    UpdateSpec spec{.update_id = "ipc " + std::to_string(++updates_)};
    spec.manifest = b_.manifest();
    return spec;
  }

  // The error type of an update that is refused before a tensor comes.
  std::string refused(const UpdateSpec& spec) { return check(receive(spec)); }

  // The same of one whose tensors all come, `other` in the place of the one called `name`.
  std::string refused(const UpdateSpec& spec, const std::string& name, const TensorView& other) {
    auto received = std::async(std::launch::async, [&] { return receive(spec); });
    auto sender = *refit::IpcSender::create(endpoint_, {.buffer_bytes = 1 << 20});
    for (const auto& tensor : b_.tensors()) {
      EXPECT_TRUE(sender.send(tensor.name, tensor.name == name ? other : tensor.view).ok());
    }
    EXPECT_TRUE(sender.finish().ok());
    return check(received.get());
  }

  const TrainerWeights a_{kLlama, 0x10};
  const TrainerWeights b_{kLlama, 0x24};
  Fleet fleet_{kLlama, 2};

 private:
  Status receive(const UpdateSpec& spec) {
    return refit::receive_ipc(endpoint_, spec, fleet_->updates(), {.timeout = seconds(20)})
        .status();
  }
  std::string check(const Status& status) {
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(fleet_->updates().version(), 3);
    fleet_.expect_served(a_);
    return error_type(status);
  }

  const std::string endpoint_ =
      *refit::ipc_endpoint(::testing::TempDir(), std::to_string(::getpid()), "errors");
  int updates_ = 0;
};

TEST_F(IpcErrors, AManifestThatTheModelDoesNotFit) {
  const std::function<void(UpdateSpec*)> changes[] = {
      [](UpdateSpec* spec) { spec->manifest.pop_back(); },
      [](UpdateSpec* spec) { spec->manifest.push_back({.name = "surplus", .shape = {2}}); },
      [](UpdateSpec* spec) { spec->manifest.push_back(spec->manifest[1]); },
      [](UpdateSpec* spec) {
        spec->manifest[0].shape = {3, 5};
      },
      [](UpdateSpec* spec) { spec->manifest[0].dtype = DType::kBFloat16; },
      [](UpdateSpec* spec) { spec->manifest[0].digest = "xyz"; },
      [](UpdateSpec* spec) {
        spec->base = 3;
        spec->manifest = {{.name = "surplus", .shape = {2}}};
      }};
  for (size_t i = 0; i < std::size(changes); ++i) {
    UpdateSpec changed = spec();
    changes[i](&changed);
    EXPECT_EQ(refused(changed), kOfManifest) << i;
  }
}

TEST_F(IpcErrors, TensorsThatAreNotThoseOfTheManifest) {
  const refit::NamedTensor& tensor = b_.tensors()[1];
  TensorView other = tensor.view;
  other.dtype = DType::kBFloat16;
  EXPECT_EQ(refused(spec(), tensor.name, other), kOfManifest);
}

TEST_F(IpcErrors, VersionsAndIdsAreBadInputOfTheirOwn) {
  for (const WeightVersion version : {3, 2, -1}) {
    UpdateSpec conflicting = spec();
    conflicting.version = version;
    EXPECT_EQ(refused(conflicting), "ValueError") << version;
  }
  UpdateSpec negative = spec();
  negative.version = -1;
  negative.allow_rollback = true;
  EXPECT_EQ(refused(negative), "ValueError");
  UpdateSpec nameless = spec();
  nameless.update_id.clear();
  EXPECT_EQ(refused(nameless), "ValueError");
  nameless.update_id = "update 1";  // the fleet's
  EXPECT_EQ(refused(nameless), "ValueError");
}

TEST_F(IpcErrors, TheWrongStateIsNoErrorOfTheManifest) {
  UpdateSpec of_another = spec();
  of_another.base = 2;
  EXPECT_EQ(refused(of_another), "RuntimeError");
  const UpdateSpec open = spec();
  ASSERT_TRUE(fleet_->updates().begin(open).ok());
  EXPECT_EQ(refused(spec()), "RuntimeError");
  EXPECT_TRUE(fleet_->updates().abort(open.update_id).ok());
}

TEST_F(IpcErrors, BytesThatAreWrongAreNoErrorOfTheManifest) {
  const std::string name = b_.tensors()[0].name;
  std::vector<std::byte> bytes(b_.bytes(name).begin(), b_.bytes(name).end());
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data(), &kNan, sizeof(kNan));
  const TensorView& like = b_.tensors()[0].view;
  const TensorView wrong = dense_view(bytes.data(), like.dtype, like.shape);
  EXPECT_EQ(refused(spec(), name, wrong), "RuntimeError");  // another digest
  UpdateSpec finite = spec();
  finite.check_finite = true;
  for (ManifestEntry& entry : finite.manifest) entry.digest.clear();
  EXPECT_EQ(refused(finite, name, wrong), "ValueError");
}

}  // namespace
}  // namespace rlgen::fleet_test
