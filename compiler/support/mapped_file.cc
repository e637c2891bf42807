#include "compiler/support/mapped_file.h"

#include "compiler/support/diagnostic.h"
#include "compiler/support/hash.h"

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

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
                      error == ENOENT   ? "check the path; it is relative to the current folder"
                      : error == EISDIR ? "give a file, not a folder"
                      : error == EACCES ? "the file's permissions do not let you read it"
                                        : ""),
                path);
}

// What is mapped now: ends by begins.
struct Mappings {
  std::mutex mutex;
  std::map<uintptr_t, uintptr_t> ends;
};
Mappings &TheMappings() {
  static Mappings *const m = new Mappings;
  return *m;
}

std::shared_ptr<const void> OwnMapping(void *at, uint64_t size) {
  const auto begin = reinterpret_cast<uintptr_t>(at);
  {
    std::lock_guard lock(TheMappings().mutex);
    TheMappings().ends[begin] = begin + size;
  }
  return std::shared_ptr<const void>(at, [begin, size](const void *p) {
    {
      std::lock_guard lock(TheMappings().mutex);
      TheMappings().ends.erase(begin);
    }
    ::munmap(const_cast<void *>(p), size);
  });
}

struct Closer {
  int fd;
  ~Closer() { ::close(fd); }
};

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
  if (path.empty())
    return Error("E0101", "a file's name is empty", "give the name of a file");
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return ReadError(path, "open", errno);
  const Closer closer{fd};
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
  file.owner_ = OwnMapping(at, size);
  file.path_ = path;
  return file;
}

StatusOr<std::string> Sha256OfFile(const std::string &path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return ReadError(path, "open", errno);
  const Closer closer{fd};
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  Sha256Stream hash;
  std::vector<uint8_t> piece(256 * 1024);
  while (true) {
    const ssize_t n = ::read(fd, piece.data(), piece.size());
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return ReadError(path, errno == EISDIR ? "open" : "read", errno);
    if (n == 0)
      return Hex(std::span<const uint8_t>(hash.Digest()));
    hash.Update(std::span(piece.data(), static_cast<size_t>(n)));
  }
}

void GiveBack(const void *at, uint64_t size) {
  const uintptr_t page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE)), begin = reinterpret_cast<uintptr_t>(at);
  const uintptr_t first = (begin + page - 1) / page * page, last = (begin + size) / page * page;
  std::lock_guard lock(TheMappings().mutex); // it must not be unmapped meanwhile
  auto it = TheMappings().ends.upper_bound(begin);
  if (it == TheMappings().ends.begin() || begin + size > std::prev(it)->second)
    return;
  if (first < last)
    ::madvise(reinterpret_cast<void *>(first), last - first, MADV_DONTNEED);
}

StatusOr<std::string> ReadTextFile(const std::string &path) {
  NPUC_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  return std::string(file.text());
}

} // namespace npuc
