#include "scenarios/scenario.h"

#include <fmt/format.h>

namespace rlgen::engine {
namespace {

// "a20b5" is twenty times 'a' and five times 'b'; empty for other text.
std::vector<int32_t> parse_ids(const std::string& text) {
  std::vector<int32_t> ids;
  std::istringstream in(text);
  char letter = 0;
  size_t count = 0;
  while (in >> letter >> count) ids.insert(ids.end(), count, letter);
  return in.eof() ? ids : std::vector<int32_t>();
}

void append(std::string* list, const std::string& item) {
  *list += list->empty() ? item : " " + item;
}

std::string names(const std::vector<Sequence*>& sequences) {
  std::string list;
  for (const Sequence* sequence : sequences) append(&list, std::to_string(sequence->request.id));
  return list;
}

}  // namespace

void Scenario::start() {
  if (scheduler_) return;
  kernels::KvLayout layout;
  layout.layers = 1;
  layout.kv_heads = 1;
  layout.head_dim = 1;
  layout.value_dim = 1;
  allocator_ = std::make_unique<BlockAllocator>(
      *BlockAllocator::create(*Region::create(int64_t(layout.block_stride()) * pool_), layout));
  scheduler_ = std::make_unique<Scheduler>(limits_, allocator_.get());
  scheduler_->set_serial(serial_);
}

std::string Scenario::run_line(const std::string& line) {
  std::istringstream words(line.substr(0, line.find('#')));
  std::string word;
  if (!(words >> word)) return "";
  std::string fault = run_word(word, words);
  if (!fault.empty() || !scheduler_) return fault;
  const Status audit = scheduler_->audit();
  return audit.ok() ? "" : message_of(audit);
}

std::string Scenario::run_word(const std::string& word, std::istringstream& rest) {
  if (word == "pool" || word == "seqs" || word == "budget" || word == "wanted") {
    int& option = word == "pool"     ? pool_
                  : word == "seqs"   ? limits_.max_num_seqs
                  : word == "budget" ? limits_.max_num_batched_tokens
                                     : limits_.max_wanted_rows;
    return !scheduler_ && rest >> option ? "" : "an option comes first and has a number";
  }
  if (word == "caching") {
    std::string value;
    rest >> value;
    limits_.prefix_caching = value == "on";
    return !scheduler_ && (value == "on" || value == "off") ? "" : "caching is on or off";
  }
  start();
  if (word == "add") return add(rest);
  if (word == "step") return step(rest);
  if (word == "drain") return drain();
  if (word == "update") return update(rest);
  if (word == "expect") return expect(rest);
  if (word == "cancel") {
    SequenceId id = 0;
    return rest >> id && scheduler_->remove(id) ? "" : "no such sequence";
  }
  return "unknown word " + word;
}

std::string Scenario::add(std::istringstream& rest) {
  auto sequence = std::make_unique<Sequence>();
  std::string prompt;
  int32_t max_tokens = 0;
  if (!(rest >> sequence->request.id >> prompt >> max_tokens)) return "add ID PROMPT MAX_TOKENS";
  for (std::string option; rest >> option;) {
    if (option == "priority") {
      rest >> sequence->request.priority;
    } else if (option == "salt") {
      rest >> sequence->request.cache_salt;
    } else if (option == "score") {
      sequence->request.score_only = true;
    } else if (option == "prompt_logprobs") {
      sequence->next_prompt = 1;
    } else {
      return "unknown option " + option;
    }
  }
  sequence->tokens = parse_ids(prompt);
  if (sequence->tokens.empty()) return "no prompt in " + prompt;
  sequence->prompt_len = int32_t(sequence->tokens.size());
  sequence->token_limit = sequence->prompt_len + max_tokens;
  sequence->next_score = sequence->prompt_len;
  if (sequence->next_prompt == 0) sequence->next_prompt = sequence->prompt_len;
  if (sequence->request.score_only) sequence->tokens.resize(size_t(sequence->token_limit), 'z');
  sequence->arrival = arrivals_++;
  const Status fits = scheduler_->check_fits(sequence->most_rows());
  if (!fits.ok()) {
    append(&finished_, fmt::format("{}:refused", sequence->request.id));
    return "";
  }
  scheduler_->add(std::move(sequence));
  return "";
}

void Scenario::end(SequenceId id) {
  append(&finished_, std::to_string(id));
  cached_[id] = scheduler_->finish(id)->cached_tokens.value_or(0);
}

void Scenario::step_once() {
  scheduler_->admit(Admission::kAll);
  rows_.clear();
  for (const PlannedRows& planned : scheduler_->plan()) {
    Sequence& sequence = *planned.sequence;
    append(&rows_, fmt::format("{}:{}", sequence.request.id, planned.rows));
    for (int32_t row = sequence.computed; row < sequence.computed + planned.rows; ++row) {
      if (!sequence.wants(row)) continue;
      if (row + 1 < sequence.prompt_len) {
        sequence.next_prompt = row + 2;
      } else if (sequence.request.score_only) {
        sequence.next_score = row + 2;
      }
    }
    scheduler_->advance(&sequence, planned.rows);
    if (sequence.remaining() > 0) continue;
    if (!sequence.request.score_only) sequence.tokens.push_back('z');
    if (int32_t(sequence.tokens.size()) == sequence.token_limit) end(sequence.request.id);
  }
}

std::string Scenario::step(std::istringstream& rest) {
  int count = 1;
  rest >> count;
  for (int i = 0; i < count; ++i) step_once();
  return "";
}

std::string Scenario::drain() {
  constexpr int kMost = 10'000;
  for (int i = 0; i < kMost; ++i) {
    if (scheduler_->num_running() + scheduler_->num_waiting() == 0) return "";
    step_once();
  }
  return fmt::format("not done after {} steps", kMost);
}

std::string Scenario::update(std::istringstream& rest) {
  std::string policy;
  rest >> policy;
  if (policy != "recompute" && policy != "keep") return "update recompute or keep";
  if (policy == "recompute") scheduler_->retract_all();
  for (Sequence* sequence : scheduler_->running()) {
    if (sequence->remaining() > 1) {
      sequence->drop_kv();
    } else {
      sequence->mixed_kv = true;
    }
  }
  scheduler_->set_serial(++serial_);
  return "";
}

std::string Scenario::found(const std::string& what) const {
  const PrefixStats stats = scheduler_->prefix_stats();
  if (what == "running") return names(scheduler_->running());
  if (what == "waiting") return names(scheduler_->waiting());
  if (what == "rows") return rows_;
  if (what == "finished") return finished_;
  if (what == "preemptions") return std::to_string(scheduler_->preemptions());
  if (what == "hits") return std::to_string(stats.hit_tokens);
  if (what == "misses") return std::to_string(stats.miss_tokens);
  if (what == "evictions") return std::to_string(stats.evictions);
  if (what == "free") return std::to_string(allocator_->free());
  if (what == "idle") return std::to_string(allocator_->idle());
  if (what == "cached") {
    std::string list;
    for (const auto& [id, tokens] : cached_) append(&list, fmt::format("{}:{}", id, tokens));
    return list;
  }
  return "(no such thing)";
}

std::string Scenario::expect(std::istringstream& rest) {
  std::string what;
  std::string wanted;
  rest >> what;
  for (std::string item; rest >> item;) append(&wanted, item);
  const std::string is = found(what);
  return is == wanted ? "" : fmt::format("{} is [{}], expected [{}]", what, is, wanted);
}

}  // namespace rlgen::engine
