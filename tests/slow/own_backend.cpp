// A backend outside the tree, for install_test.py.

#include <rlgen/contract/generation_interface.h>

#include <cstdio>

namespace {

class OwnBackend final : public rlgen::UnsupportedByDefault {
 public:
  OwnBackend() : UnsupportedByDefault("OwnBackend") {}
  rlgen::StatusOr<rlgen::GenerationOutputSpec> generate(const rlgen::GenerationDatumSpec&,
                                                        bool) override {
    return rlgen::GenerationOutputSpec();
  }
  rlgen::Status prepare_for_generation(std::span<const std::string>) override { return {}; }
  rlgen::Status finish_generation(bool) override { return {}; }
  rlgen::Status shutdown() override { return {}; }
  rlgen::StatusOr<std::vector<rlgen::PendingStatus>> init_collective(const std::string&, int32_t,
                                                                     int32_t, int32_t) override {
    return std::vector<rlgen::PendingStatus>();
  }
};

void use(rlgen::GenerationInterface& backend) {
  std::printf("generate: %s\n", backend.generate({}, true).status().ToString().c_str());
  std::printf("restart_shard: %s\n", rlgen::message_of(backend.restart_shard(0).status()).c_str());
  std::printf("blocks_training: %d\n", int(backend.blocks_training()));
}

}  // namespace

int main() {
  OwnBackend backend;
  use(backend);
  return 0;
}
