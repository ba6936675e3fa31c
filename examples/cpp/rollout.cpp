// Rolls out two prompts, changes the weights as a trainer does, and rolls out again. Prints every
// token with its log-probability and the version of the weights that made it.
//
//   rollout MODEL        a Hugging Face folder with a tokenizer

#include <rlgen/api/open_generation.h>
#include <rlgen/generation/text_session.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace {

using rlgen::Status;
using rlgen::StatusOr;
using rlgen::generation::RlgenGeneration;
using rlgen::generation::TextPrompt;
using rlgen::generation::TextSession;

// The section policy.generation of a trainer's configuration.
nlohmann::json settings(const std::string& model) {
  return {{"backend", "rlgen"},        {"model_name", model},    {"max_new_tokens", 8},
          {"temperature", 1.0},        {"top_p", 1.0},           {"top_k", nullptr},
          {"val_temperature", 0.0},    {"val_top_p", 1.0},       {"val_top_k", nullptr},
          {"stop_token_ids", nullptr}, {"stop_strings", nullptr}};
}

// Prompts of different lengths, right-padded to one width.
struct Batch {
  rlgen::HostTensor input_ids;      // [rows, width]
  rlgen::HostTensor input_lengths;  // [rows]
};

StatusOr<Batch> make_batch(const TextSession& text, const std::vector<std::string>& prompts,
                           int64_t pad_token_id) {
  std::vector<std::vector<int32_t>> rows;
  size_t width = 0;
  for (const std::string& prompt : prompts) {
    RLGEN_ASSIGN_OR_RETURN(auto ids, text.encode(TextPrompt{prompt}));
    width = std::max(width, ids.size());
    rows.push_back(std::move(ids));
  }
  std::vector<int64_t> padded;
  std::vector<int64_t> lengths;
  for (const auto& row : rows) {
    padded.insert(padded.end(), row.begin(), row.end());
    padded.insert(padded.end(), width - row.size(), pad_token_id);
    lengths.push_back(static_cast<int64_t>(row.size()));
  }
  Batch batch{rlgen::HostTensor(rlgen::DType::kInt64,
                                {static_cast<int64_t>(rows.size()), static_cast<int64_t>(width)}),
              rlgen::HostTensor::of(lengths)};
  RLGEN_RETURN_IF_ERROR(rlgen::write_integers(padded, &batch.input_ids));
  return batch;
}

Status roll_out(RlgenGeneration& backend, const Batch& batch) {
  RLGEN_ASSIGN_OR_RETURN(const rlgen::GenerationOutputSpec output,
                         backend.generate({.input_ids = batch.input_ids.view(),
                                           .input_lengths = batch.input_lengths.view(),
                                           .stop_strings = {},
                                           .seeds = {1, 2}},
                                          /*greedy=*/false));
  const int64_t width = output.output_ids.shape()[1];
  for (int64_t row = 0; row < output.output_ids.shape()[0]; ++row) {
    const int64_t end = output.unpadded_sequence_lengths.as<int64_t>()[row];
    for (int64_t at = end - output.generation_lengths.as<int64_t>()[row]; at < end; ++at) {
      const int64_t place = row * width + at;
      std::printf("row %d  token %6d  logprob %8.4f  version %d\n", int(row),
                  int(output.output_ids.as<int64_t>()[place]), output.logprobs.as<float>()[place],
                  int(output.weight_versions.as<int64_t>()[place]));
    }
  }
  return absl::OkStatus();
}

// A step of training. This one moves every value of the last norm to its neighbour.
void train(rlgen::TensorBytes* tensor) {
  if (tensor->entry.name != "model.norm.weight") return;
  const int64_t value = rlgen::size_of(tensor->entry.dtype);
  std::rotate(tensor->bytes.begin(), tensor->bytes.begin() + value, tensor->bytes.end());
}

// One transaction: all engines serve the new weights from the same step on, or none does.
Status update_weights(RlgenGeneration& backend, rlgen::WeightVersion version) {
  rlgen::generation::Generation& generation = backend.generation();
  rlgen::UpdateSpec update;
  update.version = version;
  RLGEN_ASSIGN_OR_RETURN(update.manifest, generation.served_checksums());
  for (rlgen::ManifestEntry& entry : update.manifest) entry.digest.clear();  // will change
  RLGEN_ASSIGN_OR_RETURN(const std::string id, generation.updates().open(update));
  for (const rlgen::ManifestEntry& entry : update.manifest) {
    RLGEN_ASSIGN_OR_RETURN(rlgen::TensorBytes tensor, generation.read_tensor(entry.name));
    train(&tensor);
    RLGEN_RETURN_IF_ERROR(generation.updates().write(id, entry.name, 0, tensor.bytes));
  }
  RLGEN_RETURN_IF_ERROR(generation.updates().prepare(id));
  return generation.updates().commit(id);
}

Status run(const std::string& model) {
  RLGEN_ASSIGN_OR_RETURN(const std::unique_ptr<RlgenGeneration> backend,
                         rlgen::open_generation(settings(model)));
  RLGEN_ASSIGN_OR_RETURN(const auto text,
                         TextSession::open(backend->config().rlgen_cfg.shard.model));
  RLGEN_ASSIGN_OR_RETURN(const Batch batch,
                         make_batch(*text, {"The sea is", "Once upon a time there was"},
                                    backend->config().pad_token_id.value_or(0)));
  RLGEN_RETURN_IF_ERROR(roll_out(*backend, batch));
  RLGEN_RETURN_IF_ERROR(update_weights(*backend, 1));
  RLGEN_RETURN_IF_ERROR(roll_out(*backend, batch));
  return backend->shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: rollout MODEL\n", stderr);
    return 2;
  }
  const Status status = run(argv[1]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", rlgen::message_of(status).c_str());
  return 1;
}
