#pragma once

#include <string_view>

#include "base/hash.h"
#include "base/status.h"
#include "kernels/kernel_table.h"

// Proof that a build on a machine computes the bits that every other one computes: the outputs of
// all kernels, and of the functions around them, on fixed pseudo-random input, as one digest.
namespace rlgen::kernels {

// What kernel_digest gives on every instruction set, compiler and machine. It changes only with the
// arithmetic itself (docs/numbers.md).
inline constexpr std::string_view kKernelDigest = "e3af9b4216bd3dfb1190999efd9e3512";

// Runs for some tens of milliseconds (scalar: longer) in the calling thread.
Digest kernel_digest(const KernelTable& table);

// kInternal where the digest is another, with the name of the instruction set and both digests.
Status check_kernels(const KernelTable& table);

}  // namespace rlgen::kernels
