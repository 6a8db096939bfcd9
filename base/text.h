// Words and numbers as people read them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace pipeledger {

/// "12.34 GiB"; two decimals, always GiB, so that a column compares at a glance.
std::string to_gib(Bytes bytes);

/// "12,422,222,208": an exact count, readable.
std::string with_commas(std::int64_t count);

/// "1.234 s", "56.7 ms", "890 us": three or four digits in the fitting unit.
std::string to_text(Seconds time);

/// The candidate with the smallest edit distance to `word`; empty when none is near
/// (more than a third of the word's length, at least 2, would have to change).
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// `words` over lines of at most `width` columns, each begun with `indent` spaces; a longer word
/// stands alone. Every line ends in a newline.
std::string wrap(std::string_view words, std::size_t width, std::size_t indent = 0);

/// "a, b, c"
std::string join(const std::vector<std::string>& words, std::string_view separator = ", ");

/// Letters of a foreign word that a message shows.
inline constexpr std::size_t kLegibleLength = 60;

/// The text as it may stand in a message: in quotes, cut to a legible length, without control
/// characters.
std::string in_quotes(std::string_view text);

/// "; did you mean X?" when a candidate is near, "" otherwise.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace pipeledger
