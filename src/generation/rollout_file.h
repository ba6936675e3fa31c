#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace rlgen::generation {

// What to do with an output file that exists already.
enum class ExistingFile { kRefuse, kOverwrite, kResume };

// kAlreadyExists, which names `option`, where the output file is the input: writing would destroy
// what is to be read.
Status check_not_input(std::string_view option, const std::string& input,
                       const std::string& output);

// kAlreadyExists for an output file that is there, which --overwrite would replace.
Status check_new(const std::string& output);

// A JSONL file that grows by whole lines. Each line goes to the system in one piece as it comes, so
// that a killed process leaves at most one torn line, the last. The file is locked against a
// second writer as long as the object lives. One thread at a time.
class RolloutFile {
 public:
  // kAlreadyExists for kRefuse and a file that is there; kFailedPrecondition when another process
  // writes it; the errors of file_error (base/file.h). kResume cuts off a torn last
  // line and refuses a pipe (kInvalidArgument).
  static StatusOr<std::unique_ptr<RolloutFile>> open(const std::string& path,
                                                     ExistingFile existing);

  RolloutFile(const RolloutFile&) = delete;
  RolloutFile& operator=(const RolloutFile&) = delete;
  ~RolloutFile();

  // Writes `line` and a line end. On an error (a full disk is kResourceExhausted) the file ends
  // with its last whole line, as far as the system lets us cut it, and takes no further lines.
  Status append(std::string_view line);

  // Writes the file anew without the lines of these numbers (from 0, rising). Whatever happens
  // meanwhile, the path leads to the old file or to the new one, whole. Errors: those of
  // file_error; the old file then stays as it is and goes on taking lines.
  Status drop_lines(const std::vector<int64_t>& numbers);

  // Bytes of a torn last line that opening cut off.
  int64_t torn_bytes() const { return torn_bytes_; }
  const std::string& path() const { return path_; }

 private:
  RolloutFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  Status start(ExistingFile existing);
  Status cut_torn_line();
  StatusOr<int64_t> copy_without(const std::vector<int64_t>& numbers, int fd,
                                 const std::string& copy) const;

  std::string path_;
  int fd_;
  int64_t size_ = 0;  // of the whole lines
  int64_t torn_bytes_ = 0;
  bool broken_ = false;
};

}  // namespace rlgen::generation
