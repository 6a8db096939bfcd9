// Whole files in, whole files out: an output appears complete or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace pipeledger {

/// A bigger text is refused where people write by hand: nobody writes that much, and hostile texts
/// do.
inline constexpr std::size_t kMaxTextBytes = std::size_t{1} << 20;

/// The file's bytes. Throws InputError when it cannot be read.
std::string read_file(const std::filesystem::path& path);

/// Writes to a temporary name in the same folder, then renames. Throws RunError, leaving nothing
/// half-written behind.
void write_file(const std::filesystem::path& path, std::string_view bytes);

/// gzip with no name and no time stamp: same input, same bytes out.
std::string gzip(std::string_view bytes);

/// Inverse of gzip. Throws InputError naming `path` when the bytes are not a gzip stream.
std::string gunzip(std::string_view bytes, const std::filesystem::path& path);

}  // namespace pipeledger
