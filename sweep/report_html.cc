// One page, whole in itself: no request leaves it. The data stands in it as JSON, and the script of
// web/page.js draws step time against peak as SVG.
#include <map>

#include "sweep/sweep.h"
#include "sweep/web.h"

namespace pipeledger {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

/// The template with each {{name}} replaced by its text, which may hold anything.
std::string filled(std::string_view text, const std::map<std::string_view, std::string>& texts) {
  std::string out;
  for (std::size_t at; (at = text.find("{{")) != std::string_view::npos;) {
    const std::size_t end = text.find("}}", at);
    out += text.substr(0, at);
    out += texts.at(text.substr(at + 2, end - at - 2));
    text.remove_prefix(end + 2);
  }
  return out + std::string(text);
}

/// JSON that may stand in a script: "</script>" in a value would end it.
std::string for_script(const std::string& json) {
  std::string out;
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string to_html(const SweepResult& result, const std::string& title) {
  return filled(web::page_html, {{"title", escaped(title)},
                                 {"style", std::string(web::page_css)},
                                 {"data", for_script(to_json(result))},
                                 {"script", std::string(web::page_js)}});
}

}  // namespace pipeledger
