#include "cli/engine_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <limits>
#include <string>

#include "backends/local/free_memory.h"
#include "base/cpu.h"
#include "cli/value_options.h"

namespace rlgen::cli {
namespace {

WholeRange threads_range() { return {1, machine_cpus()}; }

// The model and its context decide on the lower end.
WholeRange kv_bytes_range() {
  static const auto memory = backends::machine_memory();
  if (!memory.ok()) return {0, std::numeric_limits<int64_t>::max()};
  static const std::string words =
      fmt::format("0 (chosen by need and free memory) or at most {}, the memory of this machine",
                  memory->total);
  return {0, memory->total, 1, words};
}

// The model decides.
constexpr WholeRange kModelLenRange{std::numeric_limits<int64_t>::min(),
                                    std::numeric_limits<int64_t>::max(), 1,
                                    "0 (the model's own) or from 2 to what the model allows"};

}  // namespace

CLI::Option* add_model_options(CLI::App* app, EngineOptions* options) {
  ShardSpec& spec = options->spec;
  CLI::Option* const model = add_name(
      app, {"--model", "Hugging Face folder, or a repository id that is in the local cache"},
      "a folder or a repository id", &spec.model);
  app->add_option("--dtype", spec.dtype, "type of the weights; auto: the checkpoint's")
      ->capture_default_str();
  app->add_option("--activation-dtype", spec.activation_dtype,
                  "arithmetic of products: float32, or bfloat16 or bfloat16_amx (for processors "
                  "with AMX), which round their operands")
      ->capture_default_str();
  app->add_option("--kv-cache-dtype", spec.kv_cache_dtype,
                  "type of cached keys and values; auto: the activations'")
      ->capture_default_str();
  add_whole_number(app, {"--block-size", "keys of one cache block, a multiple of 16"},
                   kBlockSizeRange, &spec.block_size);
  add_whole_number(app,
                   {"--max-model-len", "context length (0: the model's max_position_embeddings)"},
                   kModelLenRange, &spec.max_model_len);
  return model;
}

void add_engine_options(CLI::App* app, EngineOptions* options) {
  add_model_options(app, options)->required();
  ShardSpec& spec = options->spec;
  add_whole_number(app, {"--threads", "threads (every usable CPU)"}, threads_range(),
                   &spec.num_threads);
  app->add_option("--isa", spec.isa, "kernels: auto, scalar, avx2, avx512, avx512_bf16, amx, neon")
      ->capture_default_str();
  add_whole_number(
      app, {"--kv-cache-memory-bytes", "memory for keys and values (0: by need and free memory)"},
      kv_bytes_range(), &spec.kv_cache_memory_bytes);
  add_number(app, {"--kv-cache-memory-fraction", "of the free memory, for keys and values at most"},
             {kLeastMemoryFraction, kMostMemoryFraction}, &spec.kv_cache_memory_fraction);
  add_whole_number(app, {"--max-num-seqs", "sequences running at once"}, kNumSeqsRange,
                   &spec.max_num_seqs);
  add_whole_number(app, {"--max-num-batched-tokens", "rows of one step"}, kNumBatchedTokensRange,
                   &spec.max_num_batched_tokens);
  app->add_flag("--enable-prefix-caching,!--no-enable-prefix-caching", spec.enable_prefix_caching,
                "equal beginnings share keys and values (on unless refused)");
}

}  // namespace rlgen::cli
