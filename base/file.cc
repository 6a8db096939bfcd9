#include "base/file.h"

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <system_error>

#include "base/check.h"
#include "base/problem.h"
#include "base/signals.h"

namespace pipeledger {
namespace {

// 15 bits of window; + 16 asks zlib for the gzip container.
constexpr int kGzipWindowBits = 15 + 16;
constexpr int kMemLevel = 8;  // zlib's default

/// "cannot be read: No such file or directory", as far as the system has said why.
std::string because(const std::string& what) {
  return errno == 0 ? what : fmt::format("{}: {}", what, std::generic_category().message(errno));
}

}  // namespace

std::string read_file(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    throw InputError({{.message = "is a folder, not a file", .file = path.string()}});
  }
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  if (in) bytes << in.rdbuf();
  if (!in) throw InputError({{.message = because("cannot be read"), .file = path.string()}});
  return std::move(bytes).str();
}

HeldSignals::HeldSignals() {
  sigset_t held;
  ::sigemptyset(&held);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&held, signal);
  ::pthread_sigmask(SIG_BLOCK, &held, &before_);
}

HeldSignals::~HeldSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  const HeldSignals held;
  // The process id keeps two runs that write to one folder out of each other's way.
  const std::filesystem::path temporary = fmt::format("{}.tmp{}", path.string(), ::getpid());
  std::error_code error;
  {
    errno = 0;
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out) {
      const std::string why = because("cannot be written");
      std::filesystem::remove(temporary, error);
      throw RunError(fmt::format("{}: {}", path.string(), why));
    }
  }
  std::filesystem::rename(temporary, path, error);
  if (error) {
    const std::string why = error.message();
    std::filesystem::remove(temporary, error);
    throw RunError(fmt::format("{}: cannot be written: {}", path.string(), why));
  }
}

std::string gzip(std::string_view bytes) {
  z_stream stream{};
  const int began = deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzipWindowBits, kMemLevel,
                                 Z_DEFAULT_STRATEGY);
  PIPELEDGER_CHECK(began == Z_OK, "deflateInit2 gave {}", began);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int ended = deflate(&stream, Z_FINISH);
  PIPELEDGER_CHECK(ended == Z_STREAM_END, "deflate gave {}", ended);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string gunzip(std::string_view bytes, const std::filesystem::path& path) {
  z_stream stream{};
  const int began = inflateInit2(&stream, kGzipWindowBits);
  PIPELEDGER_CHECK(began == Z_OK, "inflateInit2 gave {}", began);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::string out;
  std::array<char, 1 << 16> block;
  int status = Z_OK;
  while (status == Z_OK) {
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = static_cast<uInt>(block.size());
    status = inflate(&stream, Z_NO_FLUSH);
    out.append(block.data(), block.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END) {
    throw InputError({{.message = "is not a complete gzip stream", .file = path.string()}});
  }
  return out;
}

}  // namespace pipeledger
