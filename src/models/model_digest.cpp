#include "models/model_digest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>

#include "base/hash.h"

namespace rlgen::models {
namespace {

uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }

std::string describe(const LatentSpec& latent) {
  return fmt::format("\nlatent {} {} {} {} {} {} {:08x}", latent.rank, latent.query_rank,
                     latent.plain, latent.rotated, latent.value, int(latent.interleaved),
                     bits_of(latent.norm_eps));
}

std::string describe(const ExpertSpec& experts) {
  std::string text = fmt::format("\nexperts {} {} {} {}", experts.count, experts.top_k,
                                 experts.intermediate, int(experts.normalize));
  if (experts.router_bias || experts.bias) {
    text += fmt::format("\nexpert biases {} {}", int(experts.router_bias), int(experts.bias));
  }
  if (experts.shared_intermediate > 0) {
    text += fmt::format("\nshared {}{}", experts.shared_intermediate,
                        experts.shared_gate ? "" : " ungated");
  }
  if (experts.scores == kernels::RouterScores::kSigmoid) text += " sigmoid";
  if (experts.choice_bias) text += " choice bias";
  if (experts.groups > 1) {
    text += fmt::format(" groups {} {} {}", experts.groups, experts.top_groups,
                        int(experts.group_worth));
  }
  if (experts.scale != 1.0f) text += fmt::format(" scale {:08x}", bits_of(experts.scale));
  return text;
}

std::string describe(const DecoderSpec& spec) {
  std::string text = fmt::format(
      "family {}\nsizes {} {} {} {} {} {} {}\neps {:08x}\nscale {:08x}\nactivation {}\n"
      "flags {} {} {} {} {}\nrotary {} {:08x}",
      spec.family, spec.vocab_rows, spec.hidden, spec.layers, spec.heads, spec.kv_heads,
      spec.head_dim, spec.intermediate, bits_of(spec.norm_eps), bits_of(spec.attention_scale),
      int(spec.gating.activation), int(spec.qkv_bias), int(spec.output_bias), int(spec.mlp_bias),
      int(spec.qk_norm), int(spec.tied_head), spec.rotary.name,
      bits_of(spec.rotary.attention_factor));
  for (const float frequency : spec.rotary.inv_freq) {
    text += fmt::format(" {:08x}", bits_of(frequency));
  }
  if (spec.gating.activation == kernels::Activation::kClampedSwiglu) {
    text += fmt::format("\nswiglu {:08x} {:08x}", bits_of(spec.gating.alpha),
                        bits_of(spec.gating.limit));
  }
  if (spec.sinks) text += "\nsinks";
  if (spec.qk_norm_rows) text += fmt::format("\nnorm of rows, clip {:08x}", bits_of(spec.clip_qkv));
  if (spec.latent.rank > 0) text += describe(spec.latent);
  if (spec.experts.count > 0) text += describe(spec.experts);
  for (const LayerSpec& layer : spec.layer) {
    text += fmt::format("\nlayer {} {}{}", int(layer.rotary), layer.window,
                        layer.sparse ? " sparse" : "");
  }
  text += fmt::format("\nstop {}\n", fmt::join(spec.eos_token_ids, " "));
  return text;
}

}  // namespace

std::string model_digest(const DecoderSpec& spec, const NameTable& table,
                         std::optional<DType> rounded) {
  DigestStream stream;
  stream.update(describe(spec));
  if (rounded) stream.update(fmt::format("weights rounded to {}\n", torch_name(*rounded)));
  for (const WeightEntry& entry : table.entries) {
    stream.update(fmt::format("{} {}\n", entry.name, entry.shape.to_string()));
  }
  return stream.digest().hex();
}

}  // namespace rlgen::models
