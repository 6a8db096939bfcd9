// What users choose by name: a registry is a list of entries, each with at least a name and a line
// that says what it is; the rest of an entry is what does it. Lists, help texts and messages about
// unknown names come from it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace pipeledger {

/// The entry called `name`; null when there is none.
template <class Entry>
const Entry* find_named(const std::vector<Entry>& entries, std::string_view name) {
  for (const Entry& entry : entries)
    if (entry.name == name) return &entry;
  return nullptr;
}

/// In the registry's order.
template <class Entry>
std::vector<std::string> names_of(const std::vector<Entry>& entries) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.emplace_back(entry.name);
  return names;
}

/// "X is not a schedule; did you mean Y? known: A, B": what is wrong with a name that no entry has.
template <class Entry>
std::string unknown_name(std::string_view name, std::string_view what,
                         const std::vector<Entry>& entries) {
  const std::vector<std::string> names = names_of(entries);
  const std::string near = nearest(name, names);
  return fmt::format("{} is not {}; {}known: {}", name, what,
                     near.empty() ? "" : "did you mean " + near + "? ", join(names));
}

/// "A: what A is; B: what B is", for a help text.
template <class Entry>
std::string summaries_of(const std::vector<Entry>& entries) {
  std::vector<std::string> lines;
  for (const Entry& entry : entries)
    lines.push_back(fmt::format("{}: {}", entry.name, entry.summary));
  return join(lines, "; ");
}

/// A table of two columns, a line an entry.
template <class Entry>
std::string table_of(const std::vector<Entry>& entries) {
  std::size_t width = 0;
  for (const Entry& entry : entries) width = std::max(width, entry.name.size());
  std::string table;
  for (const Entry& entry : entries)
    table += fmt::format("{:<{}}  {}\n", entry.name, width, entry.summary);
  return table;
}

}  // namespace pipeledger
