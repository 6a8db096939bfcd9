# Writes a header that holds files as text:
#   cmake -DFILES=page.html;page.js -DOUTPUT=web.h -P embed_texts.cmake
set(constants "")
foreach(file ${FILES})
  cmake_path(GET file FILENAME name)
  string(MAKE_C_IDENTIFIER ${name} name)
  file(READ ${file} text)
  string(APPEND constants "inline constexpr std::string_view ${name} = R\"embedded(${text})embedded\";\n")
endforeach()
file(WRITE ${OUTPUT} "// Made by cmake/embed_texts.cmake.
#pragma once

#include <string_view>

namespace pipeledger::web {

${constants}
}  // namespace pipeledger::web
")
