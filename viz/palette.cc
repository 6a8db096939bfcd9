#include "viz/palette.h"

#include <fmt/format.h>

namespace pipeledger {
namespace {

constexpr Rgb kBlue{0x00, 0x72, 0xB2};
constexpr Rgb kOrange{0xE6, 0x9F, 0x00};
constexpr Rgb kGreen{0x00, 0x9E, 0x73};
constexpr Rgb kPurple{0xCC, 0x79, 0xA7};
constexpr Rgb kSky{0x56, 0xB4, 0xE9};
constexpr Rgb kYellow{0xF0, 0xE4, 0x42};
constexpr Rgb kVermilion{0xD5, 0x5E, 0x00};

/// The lightest chunk keeps this much of its colour, so that it stays apart from white.
constexpr double kLeastOfColour = 0.42;

std::uint8_t lighten(std::uint8_t channel, double share) {
  return static_cast<std::uint8_t>(255 - (255 - channel) * share + 0.5);
}

Rgb base_colour(SpanKind kind) {
  switch (kind) {
    case SpanKind::forward:
      return kBlue;
    case SpanKind::backward:
    case SpanKind::input_gradient:
      return kOrange;
    case SpanKind::weight_gradient:
      return kGreen;
    case SpanKind::optimizer:
      return kPurple;
    case SpanKind::exposed_p2p:
    case SpanKind::exposed_grad_sync:
    case SpanKind::exposed_param_sync:
    case SpanKind::exposed_host:
      return kSky;
  }
  return {};
}

}  // namespace

std::string to_hex(Rgb colour) {
  return fmt::format("#{:02x}{:02x}{:02x}", colour.red, colour.green, colour.blue);
}

bool is_dark(Rgb colour) {
  // Luma of ITU-R BT.601.
  return 0.299 * colour.red + 0.587 * colour.green + 0.114 * colour.blue < 128;
}

Rgb span_colour(SpanKind kind, int chunk, int num_chunks) {
  const double later = num_chunks > 1 ? static_cast<double>(chunk) / (num_chunks - 1) : 0.0;
  const double share = 1 - (1 - kLeastOfColour) * later;
  const Rgb base = base_colour(kind);
  return {lighten(base.red, share), lighten(base.green, share), lighten(base.blue, share)};
}

Rgb category_colour(Category category) {
  constexpr std::array<Rgb, kNumCategories> colours = {kBlue,      kSky,   kPurple, kOrange,
                                                       kVermilion, kGreen, kYellow};
  return colours[static_cast<std::size_t>(category)];
}

}  // namespace pipeledger
