// What programs print that launch scripts work their values out with: text from text, and no other
// program's business. Nothing is executed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipeledger {

/// The standard output of a program over its words (the first names it) and its standard input
/// (nullopt: none is there, or it is not known): basename, bc, cat, cut, dirname, expr, head,
/// printf, seq, sed (s and y alone), sort, tail, tr, uniq, wc, xargs, and awk where it prints
/// fields. nullopt where only a run would tell: another program, a file, an option that is not
/// read.
std::optional<std::string> program_output(const std::vector<std::string>& words,
                                          const std::optional<std::string>& input);

}  // namespace pipeledger
