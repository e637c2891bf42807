#include "compiler/support/atomic_file.h"

#include "compiler/support/diagnostic.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace npuc {
namespace {

constexpr size_t kBuffer = 1 << 20;

Status WriteError(const std::string &path, int error) {
  return AtFile(Error("E0102", fmt::format("cannot write: {}", std::strerror(error)),
                      error == ENOSPC                     ? "free space, or choose another folder"
                      : error == ENOENT                   ? "the folder does not exist"
                      : error == EISDIR                   ? "the name is a folder's"
                      : error == ENOTDIR                  ? "a part of the path is a file, not a folder"
                      : error == EACCES || error == EROFS ? "choose a folder that can be written"
                                                          : ""),
                path);
}

// write(2) until all is out; 0 or errno.
int WriteAll(int fd, const char *data, size_t size) {
  while (size) {
    ssize_t n = ::write(fd, data, size);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return n == 0 ? ENOSPC : errno;
    data += n;
    size -= static_cast<size_t>(n);
  }
  return 0;
}

} // namespace

StatusOr<AtomicFile> AtomicFile::Create(const std::string &path) {
  struct stat st;
  if (::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode))
    return WriteError(path, EISDIR);
  static std::atomic<unsigned> counter{0};
  AtomicFile file;
  file.path_ = path;
  // A symbolic link stays one: what it points to is replaced.
  char *real = ::realpath(path.c_str(), nullptr);
  if (real) {
    file.path_ = real;
    ::free(real);
  }
  // Devices and pipes (/dev/null, /dev/stdout) cannot be replaced; they are written directly.
  if (::stat(file.path_.c_str(), &st) == 0 && !S_ISREG(st.st_mode)) {
    file.fd_ = ::open(file.path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (file.fd_ < 0)
      return WriteError(path, errno);
    return file;
  }
  for (int tries = 0; tries < 100; ++tries) {
    file.temporary_ = fmt::format("{}.tmp{}-{}", file.path_, ::getpid(), counter++);
    file.fd_ = ::open(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file.fd_ >= 0 || errno != EEXIST)
      break;
  }
  if (file.fd_ < 0) {
    const int error = errno;
    file.temporary_.clear();
    return WriteError(path, error);
  }
  return file;
}

AtomicFile::AtomicFile(AtomicFile &&other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), temporary_(std::move(other.temporary_)),
      buffer_(std::move(other.buffer_)), flushed_(other.flushed_), status_(std::move(other.status_)) {
  other.temporary_.clear();
}

AtomicFile::~AtomicFile() {
  Discard();
}

void AtomicFile::Discard() {
  if (fd_ >= 0)
    ::close(fd_);
  fd_ = -1;
  if (!temporary_.empty())
    ::unlink(temporary_.c_str());
  temporary_.clear();
}

Status AtomicFile::Fail(int error) {
  status_ = WriteError(path_, error);
  Discard();
  return status_;
}

Status AtomicFile::Flush() {
  if (int error = WriteAll(fd_, buffer_.data(), buffer_.size()))
    return Fail(error);
  flushed_ += buffer_.size();
  buffer_.clear();
  return OkStatus();
}

Status AtomicFile::Write(std::string_view text) {
  NPUC_RETURN_IF_ERROR(status_);
  NPUC_CHECK(fd_ >= 0, "write after commit");
  if (buffer_.size() + text.size() <= kBuffer) {
    buffer_.append(text);
    return OkStatus();
  }
  NPUC_RETURN_IF_ERROR(Flush());
  if (text.size() < kBuffer) {
    buffer_.append(text);
    return OkStatus();
  }
  if (int error = WriteAll(fd_, text.data(), text.size()))
    return Fail(error);
  flushed_ += text.size();
  return OkStatus();
}

Status AtomicFile::Write(std::span<const uint8_t> bytes) {
  return Write(std::string_view(reinterpret_cast<const char *>(bytes.data()), bytes.size()));
}

Status AtomicFile::PadTo(uint64_t offset) {
  NPUC_CHECK(offset >= size(), "padding to {} before the end {}", offset, size());
  static constexpr char zeros[4096] = {};
  while (size() < offset)
    NPUC_RETURN_IF_ERROR(Write(std::string_view(zeros, std::min<uint64_t>(sizeof zeros, offset - size()))));
  return status_;
}

Status AtomicFile::WriteAt(uint64_t offset, std::span<const uint8_t> bytes) {
  NPUC_RETURN_IF_ERROR(status_);
  NPUC_CHECK(offset + bytes.size() <= size(), "rewriting bytes {}+{} past the end {}", offset, bytes.size(), size());
  NPUC_RETURN_IF_ERROR(Flush());
  const uint8_t *data = bytes.data();
  size_t left = bytes.size();
  while (left) {
    ssize_t n = ::pwrite(fd_, data, left, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return Fail(n == 0 ? ENOSPC : errno);
    data += n;
    left -= static_cast<size_t>(n);
    offset += static_cast<uint64_t>(n);
  }
  return OkStatus();
}

Status AtomicFile::Commit() {
  NPUC_RETURN_IF_ERROR(status_);
  NPUC_CHECK(fd_ >= 0, "commit twice");
  NPUC_RETURN_IF_ERROR(Flush());
  // Network file systems report a full disk only here.
  const int closed = ::close(std::exchange(fd_, -1));
  if (closed != 0)
    return Fail(errno);
  if (temporary_.empty())
    return OkStatus();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    return Fail(errno);
  temporary_.clear();
  return OkStatus();
}

Status MakeFolder(const std::string &path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error)
    return OkStatus();
  return AtFile(Error("E0102", fmt::format("the folder cannot be made: {}", error.message()),
                      "name a folder in a place that can be written; no part of its path may be a file"),
                path);
}

Status WriteFile(const std::string &path, std::string_view bytes) {
  NPUC_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  NPUC_RETURN_IF_ERROR(file.Write(bytes));
  return file.Commit();
}

} // namespace npuc
