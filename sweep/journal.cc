#include "sweep/journal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/file.h"
#include "base/problem.h"
#include "spec/names.h"

namespace pipeledger {
namespace {

using nlohmann::json;

[[noreturn]] void refuse(const std::filesystem::path& file, int line, std::string message) {
  throw InputError({{.message = std::move(message), .file = file.string(), .line = line}});
}

json parse_line(const std::filesystem::path& file, int number, const std::string& line) {
  try {
    return json::parse(line);
  } catch (const json::exception&) {
    refuse(file, number, "is not a line of a sweep's journal; choose another folder with -o");
  }
}

}  // namespace

Journal::Journal(const std::filesystem::path& file, const std::string& identity) : path_(file) {
  std::error_code error;
  const bool exists = std::filesystem::exists(file, error);
  if (exists) read(file, identity);
  file_ = std::fopen(file.c_str(), "ab");
  const bool is_new = !exists || std::filesystem::file_size(file, error) == 0;
  const json head = {{"sweep", identity}};
  if (file_ == nullptr || (is_new && std::fputs((head.dump() + "\n").c_str(), file_) < 0) ||
      std::fflush(file_) != 0)
    throw RunError(fmt::format("{}: cannot be written: {}", file.string(),
                               std::generic_category().message(errno)));
}

Journal::~Journal() {
  if (file_ != nullptr) std::fclose(file_);
}

void Journal::read(const std::filesystem::path& file, const std::string& identity) {
  const std::string text = read_file(file);
  const std::size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  int number = 0;
  for (std::size_t begin = 0; begin < whole;) {
    const std::size_t end = text.find('\n', begin);
    const json line = parse_line(file, ++number, text.substr(begin, end - begin));
    begin = end + 1;
    if (number == 1) {
      if (line.is_object() && line.value("sweep", "") == identity) continue;
      refuse(file, 0,
             "holds another sweep, of other fields or of a scenario that has changed; choose "
             "another folder with -o, or remove the file");
    }
    if (!line.is_object() || !line.contains("point") || !line["point"].is_number_unsigned() ||
        !line.contains("engine") || !line.contains("outcome"))
      refuse(file, number, "is not a line of a sweep's journal; choose another folder with -o");
    auto& outcomes = line["engine"] == name_of(EngineKind::simgrid) ? simgrid_ : fast_;
    outcomes[line["point"].get<std::size_t>()] = outcome_from_json(line["outcome"].dump());
  }
  std::error_code error;
  if (whole < text.size()) std::filesystem::resize_file(file, whole, error);
  if (error)
    throw RunError(fmt::format("{}: cannot be written: {}", file.string(), error.message()));
}

const std::map<std::size_t, Outcome>& Journal::found(EngineKind engine) const {
  return engine == EngineKind::simgrid ? simgrid_ : fast_;
}

void Journal::add(EngineKind engine, std::size_t point, const Outcome& outcome) {
  const std::string line = fmt::format("{{\"engine\":\"{}\",\"point\":{},\"outcome\":{}}}\n",
                                       name_of(engine), point, to_json(outcome));
  if (std::fwrite(line.data(), 1, line.size(), file_) == line.size() && std::fflush(file_) == 0)
    return;
  throw RunError(fmt::format("{}: cannot be written: {}", path_.string(),
                             std::generic_category().message(errno)));
}

}  // namespace pipeledger
