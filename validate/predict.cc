#include "validate/predict.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/problem.h"
#include "sim/simulate.h"
#include "spec/scenario.h"
#include "trace/metrics.h"

namespace pipeledger {
namespace {

using nlohmann::json;

/// One line for each problem; the record's name in front of each says nothing new.
std::string reasons(const InputError& error) {
  std::string text;
  for (const Problem& problem : error.problems()) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", problem.field, problem.message);
  }
  return text;
}

json simulate_to_json(const std::string& scenario, const std::string& name) {
  try {
    const Scenario checked = parse_scenario(scenario, "json", name);
    const StepTrace trace = simulate(checked);
    const StepMetrics metrics = compute_metrics(trace);
    json result = {{"step_s", static_cast<double>(metrics.step_ns) * 1e-9},
                   {"num_devices", trace.num_devices},
                   {"resident", json::array()},
                   {"peak", json::array()}};
    for (const RankMetrics& rank : metrics.ranks) {
      result["resident"].push_back(rank.resident_bytes);
      result["peak"].push_back(rank.peak_allocated_bytes);
    }
    return result;
  } catch (const InputError& error) {
    return {{"refused", reasons(error)}};
  }
}

std::vector<Bytes> to_bytes(const json& numbers) {
  std::vector<Bytes> bytes;
  for (const json& number : numbers) bytes.emplace_back(number.get<std::int64_t>());
  return bytes;
}

/// What `text` returns, run in a child. Nothing of the child's buffers is flushed twice.
template <typename Text>
std::string in_child(const std::string& name, Text&& text) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw RunError("no pipe to a child process can be made");
  const pid_t child = ::fork();
  if (child < 0) throw RunError("no child process can be made");
  if (child == 0) {
    ::close(ends[0]);
    bool sent = false;
    try {
      const std::string result = text();
      std::size_t done = 0;
      while (done < result.size()) {
        const ssize_t n = ::write(ends[1], result.data() + done, result.size() - done);
        if (n <= 0) break;
        done += static_cast<std::size_t>(n);
      }
      sent = done == result.size();
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}: {}\n", name, error.what());
    }
    ::_exit(sent ? 0 : 1);
  }
  ::close(ends[1]);
  std::string result;
  std::array<char, 4096> buffer{};
  ssize_t n = 0;
  while ((n = ::read(ends[0], buffer.data(), buffer.size())) > 0) {
    result.append(buffer.data(), static_cast<std::size_t>(n));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw RunError(fmt::format("{}: its simulation ended without a result", name));
  }
  return result;
}

}  // namespace

Prediction predict(const std::string& scenario, const std::string& name) {
  const json result =
      json::parse(in_child(name, [&] { return simulate_to_json(scenario, name).dump(); }));
  if (result.contains("refused")) return {.refused = result.at("refused").get<std::string>()};
  return {.resident = to_bytes(result.at("resident")),
          .peak = to_bytes(result.at("peak")),
          .num_devices = result.at("num_devices").get<int>(),
          .step_time = Seconds(result.at("step_s").get<double>())};
}

}  // namespace pipeledger
