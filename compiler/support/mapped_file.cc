#include "compiler/support/mapped_file.h"

#include "compiler/support/diagnostic.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace npuc {
namespace {

// Below this size a copy is cheaper than a mapping, and safe against the file being cut while it is read.
constexpr uint64_t kMapFrom = 64 * 1024;

Status ReadError(const std::string &path, std::string_view what, int error) {
  return AtFile(Error("E0101", fmt::format("cannot {}: {}", what, std::strerror(error)),
                      error == ENOENT ? "check the path; it is relative to the current folder" : ""),
                path);
}

// Any descriptor read to its end: pipes and small files.
StatusOr<std::string> ReadAll(int fd, const std::string &path, uint64_t size_hint) {
  std::string text;
  text.resize(size_hint + 1);
  size_t have = 0;
  while (true) {
    if (have == text.size())
      text.resize(2 * text.size() + 4096);
    ssize_t n = ::read(fd, text.data() + have, text.size() - have);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return ReadError(path, "read", errno);
    if (n == 0)
      break;
    have += static_cast<size_t>(n);
  }
  text.resize(have);
  return text;
}

} // namespace

MappedFile MappedFile::FromString(std::string bytes, std::string name) {
  MappedFile file;
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  file.bytes_ = {reinterpret_cast<const uint8_t *>(owner->data()), owner->size()};
  file.owner_ = owner;
  file.path_ = std::move(name);
  return file;
}

StatusOr<MappedFile> MappedFile::Open(const std::string &path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return ReadError(path, "open", errno);
  struct Closer {
    int fd;
    ~Closer() { ::close(fd); }
  } closer{fd};
  struct stat st;
  if (::fstat(fd, &st) != 0)
    return ReadError(path, "read", errno);
  if (S_ISDIR(st.st_mode))
    return ReadError(path, "open", EISDIR);
  const uint64_t size = S_ISREG(st.st_mode) ? static_cast<uint64_t>(st.st_size) : 0;
  if (size < kMapFrom) {
    NPUC_ASSIGN_OR_RETURN(std::string text, ReadAll(fd, path, size));
    return FromString(std::move(text), path);
  }
  void *at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (at == MAP_FAILED)
    return ReadError(path, "map", errno);
  MappedFile file;
  file.bytes_ = {static_cast<const uint8_t *>(at), size};
  file.owner_ = std::shared_ptr<const void>(at, [size](const void *p) { ::munmap(const_cast<void *>(p), size); });
  file.path_ = path;
  return file;
}

StatusOr<std::string> ReadTextFile(const std::string &path) {
  NPUC_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  return std::string(file.text());
}

} // namespace npuc
