#include "schedules/formats.h"

#include "schedules/tokens.h"

namespace pipeledger {

const std::vector<ScheduleFormat>& schedule_formats() {
  static const std::vector<ScheduleFormat> formats = {{"text", to_text},
                                                      {"torch-csv", to_torch_csv},
                                                      {"torch-comms-csv", to_torch_comms_csv},
                                                      {"vppsim", to_vppsim}};
  return formats;
}

Schedule read_schedule(std::string_view text, std::string_view file) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') return read_vppsim(text, file);
  // A comma inside a comment of our text is none of a CSV.
  bool has_comma = false;
  for_each_line(text, [&](int, std::string_view line) {
    has_comma |= line.substr(0, line.find('#')).find(',') != std::string_view::npos;
  });
  return has_comma ? read_torch_csv(text, file) : parse_schedule(text, file);
}

}  // namespace pipeledger
