#include "kernels/selftest.h"

#include "base/float_mode.h"
#include "kernels/kernel_test.h"

namespace rlgen::kernels {
namespace {

class Selftest : public OnEachIsa {};
INSTANTIATE_TEST_SUITE_P(Isas, Selftest, testing::ValuesIn(available_isas()), name_of_isa_case);

TEST_P(Selftest, DigestIsTheStoredOne) { EXPECT_EQ(kernel_digest(table()).hex(), kKernelDigest); }

TEST_P(Selftest, HostModesDoNotReachIt) {
  const ScopedFloatMode flush(FloatMode::kFlush);
  EXPECT_EQ(kernel_digest(table()).hex(), kKernelDigest);
}

void wrong_add(float* x, const float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = (x[i] + y[i]) * (i == 700 ? 1.0000001f : 1.0f);
}

TEST_P(Selftest, OneWrongBitIsFoundAndNamed) {
  KernelTable wrong = table();
  EXPECT_TRUE(check_kernels(wrong).ok());
  wrong.add = wrong_add;
  const Status status = check_kernels(wrong);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  const std::string message = message_of(status);
  EXPECT_NE(message.find(isa_name(GetParam())), std::string::npos) << message;
  EXPECT_NE(message.find(kKernelDigest), std::string::npos) << message;
}

}  // namespace
}  // namespace rlgen::kernels
