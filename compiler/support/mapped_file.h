// A whole file as read-only bytes, mapped when it is large. Copies share the mapping; it lives as long as one copy.
#pragma once

#include "compiler/support/status.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace npuc {

class MappedFile {
public:
  MappedFile() = default;

  // Errors: E0101 with the file's name: it does not exist, is a folder, cannot be read or mapped.
  static StatusOr<MappedFile> Open(const std::string &path);
  // Bytes that are not from a file, for tests and generated data.
  static MappedFile FromString(std::string bytes, std::string name = "");

  const uint8_t *data() const { return bytes_.data(); }
  uint64_t size() const { return bytes_.size(); }
  std::span<const uint8_t> bytes() const { return bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char *>(bytes_.data()), bytes_.size()}; }
  // As it was opened.
  const std::string &path() const { return path_; }
  // Keeps the bytes alive; for those who hold pointers into them.
  const std::shared_ptr<const void> &owner() const { return owner_; }

private:
  std::span<const uint8_t> bytes_;
  std::shared_ptr<const void> owner_;
  std::string path_;
};

// SHA-256 of a file in lower-case hex; however large, it is read in small pieces and takes no memory. Errors: E0101.
StatusOr<std::string> Sha256OfFile(const std::string &path);

// Says that bytes [at, at + size) will hardly be read again: if they are of a mapped file, their memory is given back
// (and comes again from the file when read after all). Else nothing.
void GiveBack(const void *at, uint64_t size);

// The text of a (small) file. Errors: E0101.
StatusOr<std::string> ReadTextFile(const std::string &path);

} // namespace npuc
