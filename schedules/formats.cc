#include "schedules/formats.h"

#include <algorithm>

#include "schedules/registered_formats.h"

namespace pipeledger {

const std::vector<ScheduleFormat>& schedule_formats() {
  static const std::vector<ScheduleFormat> formats = registered_formats();
  return formats;
}

Schedule read_schedule(std::string_view text, std::string_view file) {
  const auto found = std::find_if(
      schedule_formats().rbegin(), schedule_formats().rend(),
      [&](const ScheduleFormat& format) { return format.may_be && format.may_be(text); });
  return found->read(text, file);
}

}  // namespace pipeledger
