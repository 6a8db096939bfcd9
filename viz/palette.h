// Colours of Okabe and Ito (2008), told apart by people of every colour vision; never the only
// sign: letters, numbers and hatching say the same.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/category.h"
#include "trace/step_trace.h"

namespace pipeledger {

struct Rgb {
  std::uint8_t red = 0, green = 0, blue = 0;
};

/// "#0072b2"
std::string to_hex(Rgb colour);

/// White text is easier to read on it than black.
bool is_dark(Rgb colour);

/// Blue forwards, orange backwards, green weight gradients; a later chunk of the rank is lighter.
Rgb span_colour(SpanKind kind, int chunk, int num_chunks);

Rgb category_colour(Category category);

}  // namespace pipeledger
