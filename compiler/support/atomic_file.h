// Output files that are there whole or not at all: written to a temporary file in the target's folder, then renamed.
#pragma once

#include "compiler/support/status.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace npuc {

// Sequential writer. Nothing is visible under `path` before Commit; a writer destroyed without Commit leaves nothing
// behind, and the earlier file of that name as it was. Errors: E0102 with the file's name; after the first error,
// later calls return it again.
class AtomicFile {
public:
  static StatusOr<AtomicFile> Create(const std::string &path);
  AtomicFile(AtomicFile &&other) noexcept;
  AtomicFile &operator=(AtomicFile &&) = delete;
  ~AtomicFile();

  Status Write(std::span<const uint8_t> bytes);
  Status Write(std::string_view text);
  // Zeros up to an offset that is not before the end.
  Status PadTo(uint64_t offset);
  // Overwrites bytes that were written before (headers, checksums).
  Status WriteAt(uint64_t offset, std::span<const uint8_t> bytes);
  uint64_t size() const { return flushed_ + buffer_.size(); }
  // Flushes and renames. The writer takes no more bytes.
  Status Commit();

private:
  AtomicFile() = default;
  Status Flush();
  Status Fail(int error);
  void Discard();

  int fd_ = -1;
  std::string path_;
  std::string temporary_;
  std::string buffer_;
  uint64_t flushed_ = 0;
  Status status_;
};

// Makes a folder and those above it, if they are not there. Errors: E0102.
Status MakeFolder(const std::string &path);

// Writes a whole file at once. Errors: E0102.
Status WriteFile(const std::string &path, std::string_view bytes);

} // namespace npuc
