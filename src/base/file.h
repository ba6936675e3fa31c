#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace rlgen {

// "cannot <action> <path>: <text of error_number>". The code follows errno: kNotFound for ENOENT,
// kPermissionDenied for EACCES, kResourceExhausted for a full disk, and so on.
Status file_error(std::string_view action, std::string_view path, int error_number);

// The whole file. Errors: those of file_error (open, read); kInvalidArgument when `path` is no
// regular file, at once: a pipe that nobody writes to is not waited for.
StatusOr<std::string> read_file(const std::string& path);

// The error that reading or writing `path` would meet, as far as it shows beforehand: a file or a
// folder that is not there or may not be used, a folder in the place of a file. Nothing is opened:
// a pipe stays as it is. OK is no promise. For whoever has long work to do before. Errors: those of
// file_error; kInvalidArgument for a folder.
Status check_readable(const std::string& path);
Status check_writable(const std::string& path);

// True where both paths lead to one regular file, through links or not.
bool same_file(const std::string& a, const std::string& b);

// Writes all of `bytes` to an open file; `path` is its name for messages. Errors: those of
// file_error, with a part of the bytes written.
Status write_all(int fd, const std::string& path, std::string_view bytes);

// Writes `bytes` into a new file beside `path`, flushes it to the disk and renames it over `path`:
// a reader, or a crash at any moment, sees the old content or the new one, never a part.
// Errors: those of file_error; `path` is then as it was.
Status write_file_atomically(const std::string& path, std::string_view bytes);

// A file mapped read-only; the mapping lives as long as the object. Move only. The bytes may be
// read by any thread. A file that somebody truncates while it is mapped kills the reader, as
// with every mapping; the caller keeps checkpoints still while they load.
class MappedFile {
 public:
  // Errors: those of file_error; kInvalidArgument when `path` is no regular file. An empty file
  // gives an empty span.
  static StatusOr<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes);
  void unmap();

  std::string path_;
  std::span<const std::byte> bytes_;
};

// Takes the pages that lie wholly inside `bytes`, a part of a MappedFile, out of this process's
// memory; they are read again where they are touched. Any thread.
void drop_pages(std::span<const std::byte> bytes);

}  // namespace rlgen
