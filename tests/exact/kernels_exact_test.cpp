#include <gtest/gtest.h>

#include "exact/digest_file.h"
#include "kernels/selftest.h"

namespace rlgen::kernels {
namespace {

TEST(KernelsExact, EveryInstructionSetOfThisMachineGivesOneDigest) {
  const Digest first = kernel_digest(*kernel_table(Isa::kScalar));
  for (const Isa isa : available_isas()) {
    EXPECT_EQ(kernel_digest(*kernel_table(isa)), first) << isa_name(isa);
  }
  EXPECT_EQ(first.hex(), kKernelDigest);
  EXPECT_TRUE(report_digest("kernels", first));
}

}  // namespace
}  // namespace rlgen::kernels
