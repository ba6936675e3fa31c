#pragma once

#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "engine/schedule/scheduler.h"

namespace rlgen::engine {

// A scheduler that is driven by lines of text, with a model that makes the token 'z' each time.
// README.md lists the words.
class Scenario {
 public:
  // What is wrong with the line, or with the state that it expects; empty when all is well.
  std::string run_line(const std::string& line);

 private:
  std::string run_word(const std::string& word, std::istringstream& rest);
  std::string add(std::istringstream& rest);
  std::string step(std::istringstream& rest);
  std::string drain();
  std::string update(std::istringstream& rest);
  std::string expect(std::istringstream& rest);
  std::string found(const std::string& what) const;

  void start();
  void step_once();
  void end(SequenceId id);

  ScheduleLimits limits_{.prefix_caching = true};
  int pool_ = 16;
  std::unique_ptr<BlockAllocator> allocator_;
  std::unique_ptr<Scheduler> scheduler_;
  uint64_t arrivals_ = 0;
  WeightSerial serial_ = 1;
  std::string rows_;      // of the last step
  std::string finished_;  // in order
  std::map<SequenceId, int32_t> cached_;
};

}  // namespace rlgen::engine
