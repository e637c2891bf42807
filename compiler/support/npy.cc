// Formats: numpy.lib.format (magic, version, header length, a Python dict literal) and PKZIP's central directory with
// the 64-bit extensions that NumPy writes.
#include "compiler/support/npy.h"

#include "compiler/support/atomic_file.h"
#include "compiler/support/diagnostic.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/ranges.h>

namespace npuc {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic("\x93NUMPY", 6);

Status Malformed(std::string_view name, std::string message, std::string help = "") {
  return AtFile(Error("E0103", std::move(message), std::move(help)), name);
}

// The dict literal of a header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  // False on any deviation.
  bool Parse(std::string *descr, bool *fortran, std::vector<int64_t> *shape) {
    int have = 0;
    if (!Take('{'))
      return false;
    while (!Take('}')) {
      std::string key;
      if (!String(&key) || !Take(':'))
        return false;
      if (key == "descr" && !(have & 1)) {
        have |= 1;
        if (!String(descr))
          return false;
      } else if (key == "fortran_order" && !(have & 2)) {
        have |= 2;
        if (Word("True"))
          *fortran = true;
        else if (Word("False"))
          *fortran = false;
        else
          return false;
      } else if (key == "shape" && !(have & 4)) {
        have |= 4;
        if (!Tuple(shape))
          return false;
      } else {
        return false;
      }
      if (!Take(',') && !Peek('}'))
        return false;
    }
    Skip();
    return have == 7 && text_.empty();
  }

private:
  void Skip() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n' || text_[0] == '\t'))
      text_.remove_prefix(1);
  }
  bool Peek(char c) {
    Skip();
    return text_.starts_with(c);
  }
  bool Take(char c) {
    if (!Peek(c))
      return false;
    text_.remove_prefix(1);
    return true;
  }
  bool Word(std::string_view w) {
    Skip();
    if (!text_.starts_with(w))
      return false;
    text_.remove_prefix(w.size());
    return true;
  }
  bool String(std::string *out) {
    Skip();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"'))
      return false;
    const size_t end = text_.find(text_[0], 1);
    if (end == std::string_view::npos)
      return false;
    *out = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return true;
  }
  bool Tuple(std::vector<int64_t> *out) {
    if (!Take('('))
      return false;
    while (!Take(')')) {
      Skip();
      int64_t v = 0;
      size_t n = 0;
      for (; n < text_.size() && text_[n] >= '0' && text_[n] <= '9'; ++n)
        if (__builtin_mul_overflow(v, int64_t{10}, &v) || __builtin_add_overflow(v, int64_t{text_[n] - '0'}, &v))
          return false;
      if (n == 0)
        return false;
      text_.remove_prefix(n);
      if (text_.starts_with('L')) // Python 2
        text_.remove_prefix(1);
      out->push_back(v);
      if (!Take(',') && !Peek(')'))
        return false;
    }
    return true;
  }

  std::string_view text_;
};

// Bytes of an item and of the unit that is swapped when the data is big-endian; false for types that have no plain
// bytes.
bool ItemSize(std::string_view descr, int64_t *size, int64_t *unit) {
  if (descr.size() < 3 || descr.size() > 20 || std::string_view("<>|=").find(descr[0]) == std::string_view::npos ||
      std::string_view("fiubcSUV").find(descr[1]) == std::string_view::npos)
    return false;
  int64_t n = 0;
  for (const char c : descr.substr(2)) {
    if (c < '0' || c > '9' || n > (int64_t{1} << 40))
      return false;
    n = n * 10 + (c - '0');
  }
  const char kind = descr[1];
  *size = kind == 'U' ? 4 * n : n;
  *unit = kind == 'U' ? 4 : kind == 'c' ? n / 2 : kind == 'S' || kind == 'V' ? 1 : n;
  if (kind == 'S' || kind == 'U' || kind == 'V')
    return true;
  return n == 1 || n == 2 || n == 4 || n == 8 || (n == 16 && kind == 'c');
}

uint64_t Little(const uint8_t *p, int n) {
  uint64_t v = 0;
  for (int i = 0; i < n; ++i)
    v |= static_cast<uint64_t>(p[i]) << (8 * i);
  return v;
}

} // namespace

int64_t NpyArray::NumElements() const {
  int64_t n = 1;
  for (const int64_t d : shape)
    n *= d;
  return n;
}

StatusOr<NpyArray> ParseNpy(std::span<const uint8_t> file, std::string_view name, std::shared_ptr<const void> owner) {
  if (file.size() < 10 || std::memcmp(file.data(), kMagic.data(), kMagic.size()) != 0)
    return Malformed(name, "not a .npy file", "numpy.save(path, array) writes one");
  const int version = file[6], length_bytes = version == 1 ? 2 : 4;
  if (version < 1 || version > 3)
    return Malformed(name, fmt::format(".npy version {} is not known (1, 2 and 3 are)", version));
  const uint64_t start = 8 + static_cast<uint64_t>(length_bytes);
  if (file.size() < start || file.size() - start < Little(file.data() + 8, length_bytes))
    return Malformed(name, "the file ends inside its header");
  const uint64_t header_size = Little(file.data() + 8, length_bytes);
  NpyArray array;
  bool fortran = false;
  const std::string_view header(reinterpret_cast<const char *>(file.data() + start), header_size);
  if (!HeaderParser(header).Parse(&array.descr, &fortran, &array.shape)) {
    if (header.find('[') != std::string_view::npos)
      return Malformed(name, "records (structured types) are not supported", "save one array a file, or an .npz");
    return Malformed(name, "the header cannot be read");
  }
  int64_t unit = 1;
  if (array.descr.size() >= 2 && array.descr[1] == 'O')
    return Malformed(name, "Python objects are not supported", "convert with array.astype(numpy.float32), for example");
  if (!ItemSize(array.descr, &array.item_size, &unit))
    return Malformed(name, fmt::format("the type '{}' is not supported", array.descr));
  int64_t count = 1, total = 0;
  bool too_large = false, empty = false;
  for (const int64_t d : array.shape)
    empty |= d == 0;
  for (const int64_t d : array.shape)
    too_large |= !empty && __builtin_mul_overflow(count, d, &count);
  if (empty)
    count = 0;
  too_large |= __builtin_mul_overflow(count, array.item_size, &total);
  const std::span<const uint8_t> rest = file.subspan(start + header_size);
  if (too_large || static_cast<uint64_t>(total) > rest.size())
    return Malformed(name, fmt::format("the header says {} bytes of data, the file has {}",
                                       too_large ? std::string("more than 2^63") : std::to_string(total), rest.size()));
  array.bytes = rest.first(static_cast<size_t>(total));
  array.owner = std::move(owner);

  const bool swap = array.descr[0] == '>' && unit > 1;
  if (array.descr[0] == '>' || array.descr[0] == '=')
    array.descr[0] = '<';
  const bool transpose = fortran && array.shape.size() > 1 && count > 1;
  if (!swap && !transpose)
    return array;
  auto copy = std::make_shared<std::vector<uint8_t>>(array.bytes.begin(), array.bytes.end());
  const size_t item = static_cast<size_t>(array.item_size);
  if (transpose) {
    // Walk the result in C order, the source offset moving along.
    std::vector<int64_t> index(array.shape.size(), 0), stride(array.shape.size(), 1);
    for (size_t d = 1; d < stride.size(); ++d)
      stride[d] = stride[d - 1] * array.shape[d - 1];
    int64_t from = 0;
    for (int64_t to = 0; to < count; ++to) {
      std::memcpy(copy->data() + static_cast<size_t>(to) * item, array.bytes.data() + static_cast<size_t>(from) * item,
                  item);
      for (size_t d = index.size(); d-- > 0;) {
        from += stride[d];
        if (++index[d] < array.shape[d])
          break;
        from -= stride[d] * array.shape[d];
        index[d] = 0;
      }
    }
  }
  if (swap)
    for (size_t at = 0; at + static_cast<size_t>(unit) <= copy->size(); at += static_cast<size_t>(unit))
      std::reverse(copy->begin() + static_cast<ptrdiff_t>(at), copy->begin() + static_cast<ptrdiff_t>(at) + unit);
  array.bytes = *copy;
  array.owner = copy;
  return array;
}

StatusOr<NpyArray> ReadNpy(const std::string &path) {
  NPUC_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  return ParseNpy(file.bytes(), path, file.owner());
}

std::string NpyHeader(std::string_view descr, std::span<const int64_t> shape) {
  const std::string dims =
      shape.size() == 1 ? fmt::format("({},)", shape[0]) : fmt::format("({})", fmt::join(shape, ", "));
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", descr, dims);
  const bool wide = dict.size() + 64 > 65535;
  const size_t before = wide ? 12 : 10;
  dict.append(63 - (before + dict.size()) % 64, ' ');
  dict += '\n';
  std::string out(kMagic);
  out += wide ? '\2' : '\1';
  out += '\0';
  for (size_t i = 0; i < before - 8; ++i)
    out += static_cast<char>(dict.size() >> (8 * i) & 0xff);
  return out + dict;
}

Status WriteNpy(const std::string &path, std::string_view descr, std::span<const int64_t> shape,
                std::span<const uint8_t> bytes) {
  NPUC_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  NPUC_RETURN_IF_ERROR(file.Write(NpyHeader(descr, shape)));
  NPUC_RETURN_IF_ERROR(file.Write(bytes));
  return file.Commit();
}

StatusOr<std::vector<NpzEntry>> ParseNpz(const MappedFile &file) {
  const std::span<const uint8_t> zip = file.bytes();
  const std::string &name = file.path();
  const Status damaged =
      Malformed(name, "not an .npz file, or a damaged one", "numpy.savez(path, name=array) writes one");
  // The end record: searched from the end, since a comment may follow it.
  if (zip.size() < 22)
    return damaged;
  size_t end = zip.size() - 22;
  const size_t lowest = end > 65535 ? end - 65535 : 0;
  while (Little(zip.data() + end, 4) != 0x06054b50) {
    if (end == lowest)
      return damaged;
    --end;
  }
  uint64_t entries = Little(zip.data() + end + 10, 2), directory = Little(zip.data() + end + 16, 4);
  if (end >= 20 && Little(zip.data() + end - 20, 4) == 0x07064b50) { // 64-bit end record
    const uint64_t at = Little(zip.data() + end - 12, 8);
    if (at > zip.size() || zip.size() - at < 56 || Little(zip.data() + at, 4) != 0x06064b50)
      return damaged;
    entries = Little(zip.data() + at + 32, 8);
    directory = Little(zip.data() + at + 48, 8);
  }
  std::vector<NpzEntry> out;
  uint64_t at = directory;
  for (uint64_t i = 0; i < entries; ++i) {
    if (at > zip.size() || zip.size() - at < 46 || Little(zip.data() + at, 4) != 0x02014b50)
      return damaged;
    const uint8_t *e = zip.data() + at;
    const uint64_t flags = Little(e + 8, 2), method = Little(e + 10, 2), crc = Little(e + 16, 4);
    uint64_t packed = Little(e + 20, 4), size = Little(e + 24, 4), local = Little(e + 42, 4);
    const uint64_t name_size = Little(e + 28, 2), extra_size = Little(e + 30, 2), comment_size = Little(e + 32, 2);
    if (zip.size() - at < 46 + name_size + extra_size + comment_size)
      return damaged;
    std::string entry(reinterpret_cast<const char *>(e + 46), name_size);
    // The 64-bit extra field holds, in this order, those of the three that are all ones above.
    for (uint64_t x = 0; x + 4 <= extra_size;) {
      const uint8_t *extra = e + 46 + name_size + x;
      const uint64_t id = Little(extra, 2), length = Little(extra + 2, 2);
      if (x + 4 + length > extra_size)
        return damaged;
      if (id == 1) {
        uint64_t p = 0;
        for (uint64_t *v : {&size, &packed, &local})
          if (*v == 0xffffffff) {
            if (p + 8 > length)
              return damaged;
            *v = Little(extra + 4 + p, 8);
            p += 8;
          }
      }
      x += 4 + length;
    }
    at += 46 + name_size + extra_size + comment_size;

    if (local > zip.size() || zip.size() - local < 30 || Little(zip.data() + local, 4) != 0x04034b50)
      return damaged;
    const uint64_t skip = 30 + Little(zip.data() + local + 26, 2) + Little(zip.data() + local + 28, 2);
    if (zip.size() - local < skip || zip.size() - local - skip < packed)
      return damaged;
    const std::span<const uint8_t> data = zip.subspan(local + skip, packed);
    const std::string shown = fmt::format("{}({})", name, entry);
    if (flags & 1)
      return Malformed(shown, "encrypted entries are not supported");
    std::span<const uint8_t> plain = data;
    std::shared_ptr<const void> owner = file.owner();
    if (method == 8) {
      // Deflate packs at most 1032 to 1; a header that claims more is not worth the memory.
      if (size / 1040 > packed + 1)
        return damaged;
      auto buffer = std::make_shared<std::vector<uint8_t>>(size);
      z_stream z = {};
      if (inflateInit2(&z, -MAX_WBITS) != Z_OK)
        return Malformed(shown, "cannot start decompression");
      uint64_t taken = 0, made = 0;
      int result = Z_OK;
      while (result == Z_OK) {
        constexpr uint64_t step = 1u << 30;
        z.next_in = const_cast<uint8_t *>(data.data() + taken);
        z.avail_in = static_cast<unsigned>(std::min(step, packed - taken));
        z.next_out = buffer->data() + made;
        z.avail_out = static_cast<unsigned>(std::min(step, size - made));
        const unsigned in = z.avail_in, room = z.avail_out;
        result = inflate(&z, Z_NO_FLUSH);
        taken += in - z.avail_in;
        made += room - z.avail_out;
        if (result == Z_OK && in == z.avail_in && room == z.avail_out)
          break; // no progress
      }
      inflateEnd(&z);
      if (result != Z_STREAM_END || made != size)
        return Malformed(shown, "the compressed data is damaged");
      plain = *buffer;
      owner = buffer;
    } else if (method != 0 || packed != size) {
      return Malformed(shown, fmt::format("compression method {} is not supported", method));
    }
    uint64_t sum = crc32_z(0, plain.data(), plain.size());
    if (plain.empty())
      sum = 0;
    if (sum != crc)
      return Malformed(shown, "the checksum is wrong: the file is damaged");
    if (entry.ends_with('/'))
      continue;
    NPUC_ASSIGN_OR_RETURN(NpyArray array, ParseNpy(plain, shown, owner));
    if (entry.ends_with(".npy"))
      entry.resize(entry.size() - 4);
    out.push_back({std::move(entry), std::move(array)});
  }
  return out;
}

StatusOr<std::vector<NpzEntry>> ReadNpz(const std::string &path) {
  NPUC_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  return ParseNpz(file);
}

} // namespace npuc
