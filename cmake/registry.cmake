# make_registry(FUNCTION ENTRY HEADER name...): writes FOLDER/FUNCTION.h of the calling folder to the
# build tree, with a declaration `ENTRY name();` for each name and FUNCTION(), which returns what they
# return, in the same order.
function(make_registry function entry header)
  set(declarations "")
  set(calls "")
  foreach(name ${ARGN})
    string(APPEND declarations "${entry} ${name}();\n")
    string(APPEND calls "${name}(), ")
  endforeach()
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY ${PROJECT_SOURCE_DIR}
             OUTPUT_VARIABLE folder)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${folder}/${function}.h CONTENT
"// Made by make_registry from the list in ${folder}/CMakeLists.txt.
#pragma once

#include <vector>

#include \"${header}\"

namespace pipeledger {

${declarations}
inline std::vector<${entry}> ${function}() { return {${calls}}; }

}  // namespace pipeledger
")
endfunction()
