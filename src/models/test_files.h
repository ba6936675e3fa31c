#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/status.h"

// Files for the tests of this folder.
namespace rlgen::models::test {

// A folder of its own, removed at the end.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rlgen_models_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }

  const std::string& path() const { return path_; }
  // Writes a file below the folder, making the folders between.
  void write(const std::string& name, std::string_view bytes) const {
    const std::filesystem::path file = std::filesystem::path(path_) / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
  }

 private:
  std::string path_;
};

// A safetensors image of that header text and data.
inline std::string image(std::string_view header, std::string_view data = {}) {
  std::string bytes(8, '\0');
  for (size_t i = 0; i < 8; ++i) bytes[i] = char(uint64_t(header.size()) >> (8 * i));
  return bytes + std::string(header) + std::string(data);
}

inline std::string folder_of_fixture(const std::string& name) {
  return "tests/fixtures/checkpoints/" + name;
}

}  // namespace rlgen::models::test
